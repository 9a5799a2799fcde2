# `make demo` and `make test` set up everything they need in .venv; a second run is quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHARED ?= ../shared

# What `make test` leaves to targets of its own.
ELSEWHERE := not shared and not extract and not bridges and not crash and not slow and not browser and not paper and not studio

.PHONY: demo test test-shared test-bridges test-extract test-extract-full test-paper crash crash-production statistics
.PHONY: test-label-studio browser paper paper-quick paper-docs lint format clean
.PHONY: bench bench-crowd bench-extract bench-session bench-efficacy bench-robust bench-rounds bench-serve bench-watching

demo: $(VENV)/.core
	$(BIN)/opcal demo $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m "$(ELSEWHERE)" $(ARGS)

test-shared: $(VENV)/.dev
	OPCAL_SHARED=$(SHARED) $(BIN)/python -m pytest -n 2 -m "shared and not slow and not paper" $(ARGS)

# RUNS=20 is what CI can afford, RUNS=500 the full measurement.
RUNS ?= 500
statistics: $(VENV)/.dev
	OPCAL_RUNS=$(RUNS) OPCAL_SHARED=$(SHARED) OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
	$(BIN)/python -m pytest -n 2 -m slow -rP tests/statistics $(ARGS)

# PyTorch, Hugging Face, MLflow around an artefact.
test-bridges: $(VENV)/.bridges
	HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 $(BIN)/python -m pytest -m bridges tests/bridges $(ARGS)

# A real Label Studio, in an environment of its own: its requirements do not go with ours.
STUDIO ?= build/label-studio-1.23.0
test-label-studio: $(VENV)/.dev $(STUDIO)/.installed
	OPCAL_LABEL_STUDIO=$(STUDIO)/bin/label-studio $(BIN)/python -m pytest -m studio tests/serving $(ARGS)

# Kills while saving, mutated files, hot reloads and 200 watched fields, in the numbers that are promised.
crash-production: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m crash tests/artifact tests/serving tests/monitor $(ARGS)

# Kills, full disks, crowds: reduced counts by default, OPCAL_CRASH=full for those of docs/sessions.md.
crash: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m crash tests/crash $(ARGS)

# Chromium comes from the system (Debian's package where it is missing), axe-core from npm. Screenshots are kept in SHOTS.
SHOTS ?= artefacts/browser
browser: $(VENV)/.browser
	OPCAL_SHOTS=$(SHOTS) OPCAL_AXE=$(VENV)/npm/node_modules/axe-core/axe.min.js OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
	  $(BIN)/python -m pytest -n 2 -m browser tests/browser $(ARGS)

bench-crowd: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python bench/crowd.py $(ARGS)

# The networks of `opcal paper`: tests that need torch.
test-paper: $(VENV)/.paper
	OPCAL_SHARED=$(SHARED) $(BIN)/python -m pytest -n 2 -m paper $(ARGS)

# The paper's evaluation; both go on where they were stopped.
PAPER_OUT ?= build/paper
paper: $(VENV)/.paper
	$(BIN)/opcal paper --data $(SHARED)/data --out $(PAPER_OUT) $(ARGS)

paper-quick: $(VENV)/.paper
	$(BIN)/opcal paper --quick --data $(SHARED)/data --out $(PAPER_OUT)-quick $(ARGS)

# Torch, Hugging Face, ONNX, Ray; in CI with few kills and small clusters, in full with the counts of docs/extract.md.
test-extract: $(VENV)/.extract
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m extract $(ARGS)

test-extract-full: $(VENV)/.extract
	OPCAL_KILLS=50 OPCAL_ITEMS=1000000 OPCAL_SHARDED=200000 OMP_NUM_THREADS=1 \
	  $(BIN)/python -m pytest tests/extract tests/test_sharded.py -m "extract or not extract" $(ARGS)

bench-extract: $(VENV)/.extract
	OMP_NUM_THREADS=1 $(BIN)/python bench/extract.py $(ARGS)

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

bench-serve: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python bench/serve.py $(ARGS)

bench-watching: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python bench/watching.py --shared $(SHARED) $(ARGS)

bench-rounds: $(VENV)/.paper
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python bench/rounds.py --shared $(SHARED) $(ARGS)

bench-efficacy: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python bench/efficacy.py --data $(SHARED)/bench $(ARGS)

bench-robust: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python bench/robust.py --data $(SHARED)/bench $(ARGS)

# step.c is compiled by the installation where there is a compiler.
BUILT_FROM := pyproject.toml hatch_build.py src/opcal/core/step.c

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(BUILT_FROM) | $(VENV)/bin/python
	@echo "Setting up $(VENV), once: this takes a minute or two."
	$(BIN)/python -m pip install --quiet --editable ".[web]"
	@touch $@

$(VENV)/.dev: $(BUILT_FROM) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@ $(VENV)/.core

$(VENV)/.browser: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable ".[dev,browser]"
	command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; }
	npm install --silent --no-audit --no-fund --prefix $(VENV)/npm axe-core@4
	@touch $@

# torch is pinned to the last release whose plain wheel is the CPU build here; newer ones bring gigabytes of CUDA.
$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[dev,bench]"
	@touch $@

$(VENV)/.paper: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[dev,paper]"
	@touch $@

# The committed results: the runs of PAPER_OUT, and tables and figures of them; pictures of the data stay out.
paper-docs: $(VENV)/.paper
	mkdir -p docs/paper && rm -rf docs/paper/runs docs/paper/figures docs/paper/quick && cp -r $(PAPER_OUT)/runs docs/paper/
	$(BIN)/python -c "from pathlib import Path; from opcal.experiments.telling import page; page.write(Path('docs/paper'))"

$(VENV)/.bridges: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[dev,huggingface,mlflow]" onnxscript
	@touch $@

$(STUDIO)/.installed:
	$(PYTHON) -m venv $(STUDIO)
	$(STUDIO)/bin/python -m pip install --quiet label-studio==1.23.0
	@touch $@

$(VENV)/.extract: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[dev,extract]" onnxscript skl2onnx psutil
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache dist build
