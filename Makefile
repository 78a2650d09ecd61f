# The door. On a machine with Python 3.11+ `make demo` and `make test` set up everything they need.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin

.PHONY: demo test check paper bench setup clean
.DEFAULT_GOAL := demo

demo: setup
	$(BIN)/hedgerow demo --out hedgerow-demo

test: setup
	$(BIN)/python -m pytest -n auto

check: setup
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

# the whole experiment section on the real data (HEDGEROW_DATA), about ten minutes on two cores
paper: setup
	$(BIN)/hedgerow paper --out out/paper --resume

# every speed figure, side by side on this machine (HEDGEROW_DATA for the real tasks); ONLY=jda,startup for some
bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/bench.py --out out/bench $(if $(ONLY),--only $(ONLY))

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) hedgerow-demo out .mypy_cache .ruff_cache .pytest_cache .hypothesis
