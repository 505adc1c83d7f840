# `make demo` and `make test` do all their set-up themselves: Python 3.11 or newer, make and a package registry suffice.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test check serve bench format

demo: $(READY)
	@$(BIN)/python examples/demo.py

test: check
	$(BIN)/python -m pytest --numprocesses auto

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

serve: $(READY)
	$(BIN)/coldspark serve

bench: $(READY)
	$(BIN)/python -m benchmarks.run $(ARGS)

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Coldspark needs Python 3.11 or newer: make PYTHON=python3.12")'
	@echo "Setting up .venv (once; a few minutes, most of it torch) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)
