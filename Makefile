# On a machine with Python 3.11+ `make demo` and `make test` set up everything they need.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
PEERS  ?= .venv-peers
MOA    ?= .venv-peers-moa
PIP    := -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-unit test-rest check docs paper bench bench-peers torture setup clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.demo
	@echo 'Running all methods on embedded data: under a minute'
	@$(BIN)/hedgerow demo --out hedgerow-demo
	@printf '%s\n' '' 'How to go on:' \
	  '  . $(VENV)/bin/activate' \
	  '  python examples/quickstart.py    # the lines of the README' \
	  '  hedgerow serve --demo            # a live model: open http://127.0.0.1:8080' \
	  '  hedgerow --help                  # fit, run, compare, serve on your own files'

# a file of tests is run by one process, so that its service, cluster or browser starts once; long files come first.
# One thread of BLAS a process: there is a process a core already
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --durations=20

# the quick part of unit and of integration: five minutes on two cores
test: setup
	$(PYTEST) -m 'not slow' tests/integration tests/unit

test-unit: setup
	$(PYTEST) -m 'not slow' tests/unit

# what `make test` leaves out: what is marked slow, the laws on more examples, the short form of torture, what needs a
# browser, a notebook or skada, and the numeric tests as other processors compute
test-rest: $(VENV)/.rest
	$(PYTEST) -m 'slow or hypothesis or budget' --hypothesis-profile thorough tests/integration tests/unit
	$(PYTEST) tests/torture
	$(PYTEST) tests/integration/page tests/integration/test_notebooks.py tests/unit/adaptors/test_skada.py
	$(BIN)/python tests/processors.py

check: setup
	$(BIN)/ruff check src tests bench reproduction examples docs release
	$(BIN)/ruff format --check src tests bench reproduction examples docs release
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python release/check.py

# the pages as a site, offline; warnings are errors; QUICK=1 shows the examples of the gallery without running them
docs: setup
	$(BIN)/python $(PIP) --constraint constraints.txt --requirement docs/requirements.txt
	$(if $(QUICK),HEDGEROW_DOCS_QUICK=1 )$(BIN)/python -m sphinx -W --keep-going -q -c docs -d out/docs-cache . out/docs
	@echo 'Open file://$(CURDIR)/out/docs/index.html'

# the whole experiment section on the real data (HEDGEROW_DATA), about ten minutes on two cores
paper: setup
	$(BIN)/python -m reproduction --out out/paper --resume

# every figure of bench/RESULTS.md, side by side on this machine (HEDGEROW_DATA for the real tasks), hours in all;
# ONLY="replay fleet keys=2000" for some: `python -m bench --list` has their names and options
bench: setup
	$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m bench $(ONLY)

# kills, broken files, full disks, mutated models, senseless requests, a million events: the long form, hours;
# ONLY=test_kills.py for some
torture: $(VENV)/.rest
	TORTURE=long $(BIN)/python -m pytest -s tests/torture$(if $(ONLY),/$(ONLY)) --durations=20
	$(BIN)/python -m bench --pages

# our learner against what people would use instead, in two environments of their own; needs Java 17 for CapyMOA.
# ONLY="tasks=dslr,webcam limit=240" for some; what is in bench/rows/peers.jsonl is not run again
bench-peers:
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(PIP) --constraint constraints.txt --editable '.[bench]'
	test -x $(MOA)/bin/python || $(PYTHON) -m venv $(MOA)
	grep -v '^pandas==' constraints.txt > $(MOA)/constraints.txt
	$(MOA)/bin/python $(PIP) --constraint $(MOA)/constraints.txt --editable '.[files,lab]' capymoa pandas==2.3.3 seglearn
	for env in $(PEERS) $(MOA); do $$env/bin/python -m bench peers $(ONLY) || exit 1; done
	$(PEERS)/bin/python -m bench tables numbers $(ONLY)

setup: $(VENV)/.ready

# what the demo needs: the core, the command line, the experiments, the service
$(VENV)/.demo: pyproject.toml constraints.txt
	@echo 'Installing hedgerow and what the demo needs into $(VENV): 0.7 GB, about a minute if packages need not be downloaded'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[cli,lab,live]'
	@touch $@

# all extras and the tools of developers: tests, checks, pages, benchmarks
$(VENV)/.ready: pyproject.toml constraints.txt
	@echo 'Installing all extras and the tools of developers into $(VENV): 1.9 GB, some minutes'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[dev]'
	@touch $(VENV)/.demo $@

# what the tests in a browser, of notebooks and of skada need beside
$(VENV)/.rest: $(VENV)/.ready tests/requirements.txt
	@$(BIN)/python $(PIP) --constraint constraints.txt --requirement tests/requirements.txt
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(MOA) hedgerow-demo out docs/api docs/gallery .mypy_cache .ruff_cache .pytest_cache .hypothesis
