# `make demo` and `make test` set up everything they need in .venv; a second run is quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHARED ?= ../shared

.PHONY: demo test test-shared test-bridges crash-production crash lint format bench bench-efficacy bench-robust clean

demo: $(VENV)/.core
	$(BIN)/opcal demo $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m "not shared and not crash and not bridges" $(ARGS)

test-shared: $(VENV)/.dev
	OPCAL_SHARED=$(SHARED) $(BIN)/python -m pytest -n 2 -m shared $(ARGS)

# Kills, full disks, crowds: reduced counts by default, OPCAL_CRASH=full for those of docs/sessions.md.
# PyTorch, Hugging Face, MLflow around an artefact.
test-bridges: $(VENV)/.bridges
	HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 $(BIN)/python -m pytest -m bridges tests/bridges $(ARGS)

# Kills while saving, mutated files, hot reloads and 200 watched fields, in the numbers that are promised.
crash-production: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m crash tests/artifact tests/serving tests/monitor $(ARGS)

crash: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m crash tests/crash $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/rooms.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python bench/run.py $(ARGS)

bench-efficacy: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python bench/efficacy.py --data $(SHARED)/bench $(ARGS)

bench-robust: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python bench/robust.py --data $(SHARED)/bench $(ARGS)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@ $(VENV)/.core

# torch is pinned to the last release whose plain wheel is the CPU build here; newer ones bring gigabytes of CUDA.
$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[dev,bench]"
	@touch $@

$(VENV)/.bridges: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[dev,huggingface,mlflow]" onnxscript
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache dist build
