"""Where the real files are. Tests that need them are skipped aloud without them; under CI that is an error."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

NEEDS = {
    "HEDGEROW_DATA": "the folder that holds the data set folders (homotl_oddm, pie, ...)",
    "HEDGEROW_GOLDEN": "the folder of the recorded runs of the authors' code (dslr.mat)",
}


def pytest_configure() -> None:
    """A shell starts what runs in the background with Ctrl-C ignored, and our children would inherit that."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
        terminalreporter.write_sep("!", f"NOT TESTED on real data: {', '.join(absent)} not set", red=True, bold=True)
        for name in absent:
            terminalreporter.write_line(f"  {name}: {NEEDS[name]}")
