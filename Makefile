# Hermes Tasks. Needs Python 3.11 or newer and make; everything else is installed into .venv from the lock files.
#
#   make demo    the whole system on this machine, with a built-in demo model: a conversation from end to end
#   make up      the whole system, to be used
#   make test    all tests, the kill tests in short form
#   make check   lint, types, import law
#   make soak    the long forms: kill tests many times over, load
#   make docs    write the generated tables of docs/ again
#   make setup   only install, run time and developer tools
#   make lock    resolve the lock files anew (needs uv)
#   make clean   remove what was installed and cached here

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo test check up soak lock lint format types law docs clean python

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PIP := $(PY) -m pip --disable-pip-version-check --no-input install -qq
TESTS ?= tests
UV ?= uv

# The newest suitable interpreter; one that is only a shim, or too old, does not count. Override: make PYTHON=...
PYTHON ?= $(shell for candidate in python3.13 python3.12 python3.11 python3; do \
	if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	echo $$candidate; break; fi; done)

help:
	@sed -n 's/^#   //p' Makefile

# --- installing: stamps, so that a second call does nothing ---

python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "make: Python 3.11 or newer is needed and was not found." >&2; \
		echo "      Debian 12, Ubuntu 24.04 and newer: apt install python3 python3-venv; or: make PYTHON=/path/to/python3" >&2; \
		exit 1; fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make: $(PYTHON) is older than Python 3.11; choose another: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "make: $(PYTHON) has no venv module." >&2; \
		echo "      Debian and Ubuntu: apt install python3-venv (or python3.X-venv, for the version in use)" >&2; \
		exit 1; }

$(PY):
	@$(MAKE) --no-print-directory python
	$(PYTHON) -m venv $(VENV)

# pip, for an environment that was made without it.
$(VENV)/.pip: $(PY)
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip --upgrade >/dev/null
	@touch $@

$(VENV)/.run: $(VENV)/.pip requirements.lock requirements-build.lock pyproject.toml
	@echo "installing what it runs on (pinned and hashed) ..."
	@$(PIP) --require-hashes -r requirements.lock -r requirements-build.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@$(PY) -m compileall -q hermes_tasks workers beat  # every process of the stack loads them
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.lock
	@echo "installing the developer tools (pinned and hashed) ..."
	@$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

setup: $(VENV)/.dev

# --- running ---

demo: $(VENV)/.run
	@$(BIN)/hermes-tasks demo

up: $(VENV)/.run
	@$(BIN)/hermes-tasks up

# --- testing ---

# With TESTS=... one of the two halves may be empty (pytest's exit code 5); of all tests neither may.
NONE_CHOSEN = [ "$$?" = 5 -a "$(TESTS)" != tests ]

# The kill tests measure seconds: they run after the others, alone.
test: $(VENV)/.dev
	$(PY) -m pytest -n 2 -m "not crash and not soak" $(TESTS) || $(NONE_CHOSEN)
	CRASH_REPEATS=$${CRASH_REPEATS:-1} $(PY) -m pytest -m "crash and not soak" $(TESTS) || $(NONE_CHOSEN)

soak: $(VENV)/.dev
	CRASH_REPEATS=$${CRASH_REPEATS:-20} $(PY) -m pytest --timeout 3600 -m "crash or soak" $(TESTS)

check: lint types law

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev
	$(BIN)/mypy

law: $(VENV)/.dev
	$(BIN)/lint-imports

# --- keeping ---

docs: $(VENV)/.dev
	$(PY) -m tests.arch.key_table

COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock"

# Versions already locked stay unless pyproject.toml forbids them; `rm requirements*.lock` first to take the newest.
lock:
	@command -v $(UV) >/dev/null || { echo "make: 'make lock' needs uv: pip install uv" >&2; exit 1; }
	$(COMPILE) pyproject.toml -o requirements.lock
	sed -n 's/^requires = \["\(.*\)"\]$$/\1/p' pyproject.toml | $(COMPILE) - -c requirements.lock -o requirements-build.lock
	$(COMPILE) pyproject.toml --group dev -c requirements.lock -c requirements-build.lock -o requirements-dev.lock

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .grimp_cache
	find hermes_tasks workers beat tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
