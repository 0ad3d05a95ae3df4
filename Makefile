# penstock: every target sets up what it needs, in .venv, and does nothing twice.
#
#   make demo     build the core package and show it at work
#   make test     linters, type checker, layer check, all tests
#   make lint     the checks of `make test` without the tests
#   make large    read files of 1 GB, of every format, under a budget of 32 MB
#   make sanitize run the kernels that read files under the address and undefined-behaviour sanitizers
#   make bench    penstock next to its peers
#   make format   let ruff rewrite the sources
#   make env      only the environment of `make test`
#   make clean    remove everything that was built, .venv included
#
# Needs: python3 (3.11 or later) with venv, a C++17 compiler, make.
# Settings: PYTHON=python3.12 (before .venv exists), WORKERS=4 (test processes), PYTEST_ARGS="-k shuffle -x".

PYTHON ?= python3
WORKERS ?= auto
PYTEST_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
# Stamps live in the environment that they describe: remove one and the other is gone too.
STAMPS := $(VENV)/stamps
# Twice quiet: errors only.
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check
# Without isolation the build reuses its directory and its tools: seconds instead of a minute.
INSTALL_EDITABLE := $(INSTALL) --no-build-isolation --editable
# Where Python is told to write no bytecode of its own, an import would otherwise compile every module anew.
PRECOMPILE := $(BIN)/python -m compileall -q src/penstock
NATIVE := $(wildcard native/*.cpp native/*.h) CMakeLists.txt pyproject.toml

.PHONY: help env demo test lint large sanitize bench format clean
.DELETE_ON_ERROR:
# All targets share one environment, and pip must not run twice in it at the same time.
.NOTPARALLEL:

help:
	@sed -n '/^#   make/s/^#   //p' Makefile

env: $(STAMPS)/test

demo: $(STAMPS)/core
	@$(BIN)/penstock demo

define LINT
@echo "[check] ruff"
@$(BIN)/ruff check --quiet .
@$(BIN)/ruff format --check --quiet . || { echo "Some files are not formatted: run 'make format'." >&2; exit 1; }
@echo "[check] mypy"
@$(BIN)/mypy --no-error-summary
@echo "[check] import-linter"
@$(BIN)/lint-imports --no-cache > $(STAMPS)/lint-imports.log 2>&1 || { cat $(STAMPS)/lint-imports.log >&2; exit 1; }
endef

lint: $(STAMPS)/test
	$(LINT)

test: $(STAMPS)/test
	$(LINT)
	@echo "[check] pytest, $(WORKERS) processes, some minutes"
	@$(BIN)/python -m pytest -q -n $(WORKERS) --maxprocesses 8 $(PYTEST_ARGS)

large: $(STAMPS)/test
	@PENSTOCK_LARGE_FILES=1 $(BIN)/python -m pytest -q -s tests/memory/test_real_files.py

# Needs neither Python nor .venv: the kernels know nothing of it.
SANITIZED := $(addprefix native/,crc32c.cpp example_encode.cpp example_lists.cpp example_parse.cpp pieces.cpp read_records.cpp sequence_example.cpp tfrecord.cpp)
SANITIZE := -std=c++17 -O1 -g -Wall -Wextra -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all

sanitize: build/sanitize
	@build/sanitize tests/native/corpus

build/sanitize: tests/native/sanitize.cpp $(SANITIZED) $(wildcard native/*.h)
	@mkdir -p build
	@echo "[build] kernels with sanitizers"
	@$(CXX) $(SANITIZE) -o $@ tests/native/sanitize.cpp $(SANITIZED)

bench: $(STAMPS)/bench
	@$(BIN)/python -m benchmarks

format: $(STAMPS)/test
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "penstock needs Python 3.11 or later; name one with: make PYTHON=..." >&2; exit 1; }
	@echo "[setup] $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --upgrade pip
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/build-tools: $(STAMPS)/venv
	@echo "[setup] build tools"
	@$(INSTALL) scikit-build-core nanobind numpy cmake ninja
	@touch $@

# Pinned, and before anything that depends on it.
$(STAMPS)/torch: $(STAMPS)/venv
	@echo "[setup] torch"
	@$(INSTALL) torch==2.13.0
	@touch $@

$(STAMPS)/core: $(STAMPS)/build-tools $(NATIVE)
	@echo "[setup] penstock"
	@$(INSTALL_EDITABLE) .
	@$(PRECOMPILE)
	@touch $@

# An install with extras builds the package as well: the stamp of the core package is renewed with it.
$(STAMPS)/test: $(STAMPS)/torch $(STAMPS)/build-tools $(NATIVE)
	@echo "[setup] penstock and what its tests need"
	@$(INSTALL_EDITABLE) '.[test]'
	@$(PRECOMPILE)
	@touch $(STAMPS)/core $@

$(STAMPS)/bench: $(STAMPS)/torch $(STAMPS)/build-tools $(NATIVE)
	@echo "[setup] penstock and its peers"
	@$(INSTALL_EDITABLE) '.[bench]'
	@$(PRECOMPILE)
	@touch $(STAMPS)/core $@
