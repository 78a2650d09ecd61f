"""Where the real files are. Tests that need them are skipped aloud without them; under CI that is an error."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path

import numpy as np
import pytest

NEEDS = {
    "HEDGEROW_DATA": "the folder that holds the data set folders (homotl_oddm, pie, ...)",
    "HEDGEROW_GOLDEN": "the folder of the recorded runs of the authors' code (dslr.mat)",
}

# How many examples a law is tried on, in percent of what it asks for: `make test` has no time for all of them.
if importlib.util.find_spec("hypothesis"):
    from hypothesis import settings

    for name, percent in {"thorough": 100, "quick": 20}.items():
        settings.register_profile(
            name, max_examples=percent, deadline=None, derandomize=True, database=None
        )
    settings.load_profile("quick")


def pytest_configure() -> None:
    """A shell starts what runs in the background with Ctrl-C ignored, and our children would inherit that."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What we borrow of other packages is tested first: where it has changed, all else fails less clearly."""
    items.sort(key=lambda item: item.path.name != "test_borrowed.py")


def pytest_sessionstart() -> None:
    """Load the compiled loops. Two processes that begin together, in a fresh clone, would compile the same ones at the
    same time: each begins at another end of the methods, and finds in the cache what the other has made."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if not worker:
        return
    from hedgerow import METHODS, OnlineTransferClassifier

    X = np.random.default_rng(0).normal(size=(120, 5))
    y = np.arange(120) % 3
    domain = np.repeat([0, 1, -1], 40)
    names = list(METHODS)
    for method in names if int(worker.removeprefix("gw")) % 2 else reversed(names):
        for rows in (X, X.astype(np.float32)):
            clf = OnlineTransferClassifier(method).fit(rows, y, sample_domain=domain)
            for x, label in zip(rows[:60], y[:60], strict=True):
                clf.predict_one(x)
                clf.learn_one(x, label)
            clf.predict_then_learn(rows, y)


def folder(variable: str) -> Path:
    value = os.environ.get(variable)
    if value and Path(value).is_dir():
        return Path(value)
    message = f"{variable} is not set to a folder: it names {NEEDS[variable]}"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    return folder("HEDGEROW_DATA")


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    return folder("HEDGEROW_GOLDEN")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    absent = [name for name in NEEDS if not os.environ.get(name)]
    if absent:
        terminalreporter.write_sep(
            "!", f"NOT TESTED on real data: {', '.join(absent)} not set", red=True, bold=True
        )
        for name in absent:
            terminalreporter.write_line(f"  {name}: {NEEDS[name]}")
