# On a machine with Python 3.11+ `make demo` and `make test` set up everything they need.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
PEERS  ?= .venv-peers
MOA    ?= .venv-peers-moa
PIP    := -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-unit test-rest test-all test-capymoa check test-sdist docs book paper bench bench-peers
.PHONY: how-far torture setup clean
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

# all of unit and the quick part of integration: five minutes on two cores
test: setup
	$(PYTEST) -m 'not slow' tests/integration tests/unit

test-unit: setup
	$(PYTEST) tests/unit

# what `make test` leaves out: the slow part of integration, the laws on more examples, the short form of torture
test-rest: setup
	$(PYTEST) -m 'slow or hypothesis or budget' --hypothesis-profile thorough tests/integration tests/unit
	$(PYTEST) tests/torture

# everything
test-all: test test-rest test-capymoa

# CapyMOA wants an older pandas than constraints.txt pins, and Java 17; needs no torch
test-capymoa: $(MOA)/.ready
	$(MOA)/bin/python -m pytest tests/integration/with_capymoa

$(MOA)/.ready: pyproject.toml constraints.txt
	test -x $(MOA)/bin/python || $(PYTHON) -m venv $(MOA)
	grep -v '^pandas==' constraints.txt > $(MOA)/constraints.txt
	$(MOA)/bin/python $(PIP) --constraint $(MOA)/constraints.txt --editable '.[capymoa]' pytest
	touch $@

check: setup
	$(BIN)/ruff check src tests bench examples docs release
	$(BIN)/ruff format --check src tests bench examples docs release
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/lint.py
	$(BIN)/python release/check.py

# the source archive: built, installed in an environment of its own, and all its tests; ONLY=tests/unit for some
test-sdist: setup
	$(BIN)/python release/check.py --all $(if $(ONLY),--only '$(ONLY)')

# the pages as a site, offline; warnings are errors; QUICK=1 shows the examples of the gallery without running them
docs: setup
	$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[docs]'
	$(if $(QUICK),HEDGEROW_DOCS_QUICK=1 )$(BIN)/python -m sphinx -W --keep-going -q -c docs -d out/docs-cache . out/docs
	@echo 'Open file://$(CURDIR)/out/docs/index.html'

# the book of results: pages made of the rows in book/rows (docs/book), and the measured figures of docs/which.md
book: setup
	$(BIN)/python -m bench.book

# the whole experiment section on the real data (HEDGEROW_DATA), about ten minutes on two cores
paper: setup
	$(BIN)/hedgerow paper --out out/paper --resume

# every figure of bench/RESULTS.md, side by side on this machine (HEDGEROW_DATA for the real tasks), hours in all;
# ONLY="replay fleet keys=2000" for some: `python -m bench --list` has their names and options
bench: setup
	$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m bench $(ONLY)

# what many workers would do, simulated from what one and two did: docs/how-far-it-goes.md
how-far: setup
	$(BIN)/python -m bench.scale

# kills, broken files, full disks, mutated models, senseless requests, a million events: the long form, hours;
# ONLY=test_kills.py for some
torture: setup
	TORTURE=long $(BIN)/python -m pytest -s tests/torture$(if $(ONLY),/$(ONLY)) --durations=20
	$(BIN)/python -m bench --pages

# our learner against what people would use instead, in two environments of their own; needs Java 17 for CapyMOA.
# ONLY="tasks=dslr,webcam limit=240" for some; what is in bench/rows/peers.jsonl is not run again
bench-peers:
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(PIP) --constraint constraints.txt --editable '.[peers]'
	test -x $(MOA)/bin/python || $(PYTHON) -m venv $(MOA)
	grep -v '^pandas==' constraints.txt > $(MOA)/constraints.txt
	$(MOA)/bin/python $(PIP) --constraint $(MOA)/constraints.txt --editable '.[peers-moa]'
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
	@echo 'Installing all extras and the tools of developers into $(VENV): 2.3 GB, some minutes'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[dev]'
	@touch $(VENV)/.demo $@

clean:
	rm -rf $(VENV) $(PEERS) $(MOA) hedgerow-demo out docs/api docs/gallery .mypy_cache .ruff_cache .pytest_cache .hypothesis
