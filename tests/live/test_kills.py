"""kill -9 at random moments: short versions of `make torture`, at least twenty kills in all."""

from __future__ import annotations

import pytest
from live.kill_serve import kill_serve
from live.kills import kill_run
from live.soak import soak

QUIET = lambda text: None  # noqa: E731


@pytest.mark.parametrize(("late", "kills"), [(False, 8), (True, 6)])
def test_a_killed_run_goes_on_as_if_nothing_had_been(tmp_path, late, kills):
    assert kill_run(tmp_path, kills, late=late, n=8000, say=QUIET) == kills


def test_a_killed_service_loses_no_label_and_learns_none_twice(tmp_path):
    assert kill_serve(tmp_path, 6, n=300, say=QUIET) == 6


def test_memory_and_journal_do_not_grow():
    growth, journal, at_first = soak(40_000, say=QUIET)
    assert growth < 0.05
    assert journal < 1.5 * at_first
