# The door. On a machine with Python 3.11+ `make demo` and `make test` set up everything they need.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
PEERS  ?= .venv-peers
MOA    ?= .venv-peers-moa
PIP    := -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-capymoa check test-sdist docs book paper bench bench-peers bench-live bench-fleet bench-dask
.PHONY: bench-spark how-far torture setup clean
.DEFAULT_GOAL := demo

demo: setup
	$(BIN)/hedgerow demo --out hedgerow-demo
	@echo 'To see a model run: $(BIN)/hedgerow serve --demo, then open http://127.0.0.1:8080'

test: setup
	$(BIN)/python -m pytest -n auto

# CapyMOA wants an older pandas than constraints.txt pins, and Java 17; needs no torch
test-capymoa: $(MOA)/.ready
	$(MOA)/bin/python -m pytest tests/with_capymoa

$(MOA)/.ready: pyproject.toml constraints.txt
	test -x $(MOA)/bin/python || $(PYTHON) -m venv $(MOA)
	grep -v '^pandas==' constraints.txt > $(MOA)/constraints.txt
	$(MOA)/bin/python $(PIP) --constraint $(MOA)/constraints.txt --editable '.[capymoa]' pytest
	touch $@

check: setup
	$(BIN)/ruff check src tests benchmarks examples docs release
	$(BIN)/ruff format --check src tests benchmarks examples docs release
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python release/check.py

# the source archive: built, installed in an environment of its own, and all its tests; ONLY=tests/test_imports.py for some
test-sdist: setup
	$(BIN)/python release/check.py --all $(if $(ONLY),--only '$(ONLY)')

# the pages as a site, offline; warnings are errors; QUICK=1 shows the examples of the gallery without running them
docs: setup
	$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[docs]'
	$(if $(QUICK),HEDGEROW_DOCS_QUICK=1 )$(BIN)/python -m sphinx -W --keep-going -q -c docs -d out/docs-cache . out/docs
	@echo 'Open file://$(CURDIR)/out/docs/index.html'

# the book of results: pages folded from the rows in book/rows (docs/book), and the measured figures of docs/which.md
book: setup
	$(BIN)/python benchmarks/book/fold.py

# the whole experiment section on the real data (HEDGEROW_DATA), about ten minutes on two cores
paper: setup
	$(BIN)/hedgerow paper --out out/paper --resume

# every speed figure, side by side on this machine (HEDGEROW_DATA for the real tasks); ONLY=jda,startup for some
bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/bench.py --out out/bench $(if $(ONLY),--only $(ONLY))

# what runs, measured: `hedgerow run` beside the library, the service under load (HEDGEROW_DATA), a short soak
bench-live: setup
	$(BIN)/python benchmarks/live/run_speed.py --out benchmarks/live/measured/run_speed.json
	$(BIN)/python benchmarks/live/load.py --out benchmarks/live/measured/load.json
	PYTHONPATH=benchmarks $(BIN)/python -m live.soak --events 200000
	$(BIN)/python benchmarks/live/results.py

# many targets: bytes a key, mixed batches beside models of their own, a million keys, kills, what warm-up is worth
bench-fleet: setup
	$(BIN)/python benchmarks/fleet/measure.py
	$(BIN)/python benchmarks/fleet/tables.py
	PYTHONPATH=benchmarks $(BIN)/python -m fleet.kills >> benchmarks/fleet/kills.txt
	$(BIN)/python benchmarks/fleet/warmup.py
	$(BIN)/python benchmarks/fleet/results.py

# experiments and statistics on a Dask cluster of this machine (HEDGEROW_DATA); SIZE=20 gigabytes in FOLDER=/var/tmp
bench-dask: setup
	$(BIN)/python benchmarks/dask/experiments.py speed
	$(BIN)/python benchmarks/dask/experiments.py kills --tasks dslr,webcam,amazon --methods pa,homotlms,oddm
	$(BIN)/python benchmarks/dask/statistics.py --gigabytes $(or $(SIZE),1) --folder $(or $(FOLDER),/var/tmp)
	$(BIN)/python benchmarks/dask/predictions.py
	$(BIN)/python benchmarks/dask/results.py

# streams of keys on Spark (Java 17): 20 kills over a million events, throughput, one hot key; EVENTS=100000 for fewer
bench-spark: setup
	PYTHONPATH=benchmarks $(BIN)/python -m spark.speed --events $(or $(EVENTS),100000) --out benchmarks/spark/measured/speed.json
	PYTHONPATH=benchmarks $(BIN)/python -m spark.kills --events $(or $(EVENTS),1000000) --out benchmarks/spark/measured/kills.json
	$(BIN)/python benchmarks/spark/results.py

# what many workers would do, simulated from what one and two did (benchmarks/scale/measure.py): docs/how-far-it-goes.md
how-far: setup
	$(BIN)/python benchmarks/scale/simulate.py --check
	$(BIN)/python benchmarks/scale/simulate.py --all
	$(BIN)/python benchmarks/scale/page.py

# kills, broken files, full disks, mutated models, senseless requests, a million events; over an hour; ONLY=kills,faults
torture: setup
	$(BIN)/python benchmarks/torture.py --out benchmarks/live/measured/torture.txt $(if $(ONLY),--only $(ONLY))
	$(BIN)/python benchmarks/live/results.py

# our learner against what people would use instead, in two environments of their own; needs Java 17 for CapyMOA.
# TASKS=dslr,webcam LIMIT=240 for some; what is in benchmarks/peers/rows.jsonl is not run again
bench-peers:
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(PIP) --constraint constraints.txt --editable '.[peers]'
	test -x $(MOA)/bin/python || $(PYTHON) -m venv $(MOA)
	grep -v '^pandas==' constraints.txt > $(MOA)/constraints.txt
	$(MOA)/bin/python $(PIP) --constraint $(MOA)/constraints.txt --editable '.[peers-moa]'
	for env in $(PEERS) $(MOA); do \
	  $$env/bin/python benchmarks/peers.py --tasks '$(TASKS)' --limit $(or $(LIMIT),60) || exit 1; \
	done
	$(PEERS)/bin/python benchmarks/peers.py --table

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(MOA) hedgerow-demo out docs/api docs/gallery .mypy_cache .ruff_cache .pytest_cache .hypothesis
