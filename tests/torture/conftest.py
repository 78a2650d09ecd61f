"""The figures of the long form are rows like those of every benchmark."""

from __future__ import annotations

import time

import pytest
from torture.harness import LONG

from bench.record import Row, record


@pytest.fixture
def note(request):
    """Print what a test did; in the long form keep it in bench/rows."""
    began = time.monotonic()

    def keep(**figures):
        row = Row(
            {"what": request.node.name}, {**figures, "seconds": round(time.monotonic() - began)}
        )
        print(row)
        if LONG:
            record("torture", row, "make torture")

    return keep
