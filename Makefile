# `make demo` and `make test` set up everything they need in .venv; a second run is quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHARED ?= ../shared

.PHONY: demo test test-shared test-bridges crash-production crash lint format bench bench-session bench-efficacy bench-robust bench-crowd browser clean

demo: $(VENV)/.core
	$(BIN)/opcal demo $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m "not shared and not crash and not bridges" $(ARGS)

test-shared: $(VENV)/.dev
	OPCAL_SHARED=$(SHARED) $(BIN)/python -m pytest -n 2 -m shared $(ARGS)

# PyTorch, Hugging Face, MLflow around an artefact.
test-bridges: $(VENV)/.bridges
	HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 $(BIN)/python -m pytest -m bridges tests/bridges $(ARGS)

# Kills while saving, mutated files, hot reloads and 200 watched fields, in the numbers that are promised.
crash-production: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m crash tests/artifact tests/serving tests/monitor $(ARGS)

# Kills, full disks, crowds: reduced counts by default, OPCAL_CRASH=full for those of docs/sessions.md.
crash: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m crash tests/crash $(ARGS)

# Chromium comes from the system (Debian's package where it is missing), axe-core from npm.
browser: $(VENV)/.browser
	OPCAL_AXE=$(VENV)/npm/node_modules/axe-core/axe.min.js OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
	  $(BIN)/python -m pytest -n 2 tests/browser $(ARGS)
	@echo "Screenshots: artefacts/browser"

bench-crowd: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python bench/crowd.py $(ARGS)

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

bench-session: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python bench/session_size.py $(ARGS)

bench-efficacy: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python bench/efficacy.py --data $(SHARED)/bench $(ARGS)

bench-robust: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python bench/robust.py --data $(SHARED)/bench $(ARGS)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[web]"
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@ $(VENV)/.core

$(VENV)/.browser: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable ".[dev,browser]"
	command -v chromium >/dev/null || apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core
	npm install --silent --no-audit --no-fund --prefix $(VENV)/npm axe-core@4
	@touch $@

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
