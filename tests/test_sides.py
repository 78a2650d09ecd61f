"""Two checkouts side by side (`benchmarks/sides.py`): this one against itself, on the embedded digits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sides import HERE, ROOT, Side, Stream, checkout, in_turns
from speed import own

ROWS = 90


@pytest.fixture(scope="module")
def digits() -> Stream:
    whole = Stream.of("digits", "shifted")
    few = [(X[:60], y[:60]) for X, y in whole.sources]
    return Stream(few, np.arange(60 * len(few)), whole.warmup[:60], whole.X[:ROWS], whole.y[:ROWS])


def test_a_checkout_against_itself_does_the_same(digits: Stream) -> None:
    both = own.compare(digits, HERE, HERE, threads=1, rounds=2)
    assert both.different == 0
    assert both.new.bytes == both.old.bytes > 10_000
    assert both.new.mistakes == both.old.mistakes < ROWS
    for found in both[:2]:
        predictions = [replay.predictions for replay in found.replays]
        assert (predictions[0] == predictions[1]).all()
        assert found.lives[0].seconds.shape == (ROWS, 2)
        assert found.replay > 0
        assert found.step > 0
    row = json.loads(json.dumps(own.times("digits", both, None)))
    assert row["replay"] == pytest.approx(both.new.replay / both.old.replay)
    assert own.file("digits", both)["file"] == 1.0


def test_live_stretches_predict_what_the_replay_does(digits: Stream) -> None:
    with Side(HERE, digits, threads=1) as side:
        replay, live = side.fit("homotlms").replay(), side.live([(10, 20), (50, 70)])
    assert live.seconds.shape == (30, 2)
    assert live.predictions.tolist() == replay.predictions[:70].tolist()


def test_what_goes_wrong_on_a_side_is_told(digits: Stream, tmp_path: Path) -> None:
    with Side(HERE, digits) as side, pytest.raises(RuntimeError, match="no-such-method"):
        side.fit("no-such-method")
    with pytest.raises(RuntimeError, match="ended with 1"), Side(tmp_path, digits):
        pass  # a folder without the library


def test_a_lengthened_stream_starts_as_it_was_and_meets_no_row_twice(digits: Stream) -> None:
    longer = digits.lengthened(200)
    assert (longer.X[:ROWS] == digits.X).all()
    assert (longer.y[:ROWS] == digits.y).all()
    assert len(np.unique(longer.X, axis=0)) == len(longer.y) == 200
    assert sorted(longer.y[ROWS : 2 * ROWS]) == sorted(digits.y)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
def test_a_checkout_has_the_sources_of_the_commit_and_is_gone_afterwards() -> None:
    with checkout("HEAD") as source:
        assert (source / "hedgerow" / "__init__.py").is_file()
    assert not source.exists()
    said = r"commit 0000000 cannot be taken from .*git fetch --unshallow"
    with pytest.raises(RuntimeError, match=said), checkout("0000000"):
        pass


def test_sides_take_turns_in_being_first() -> None:
    assert [i for i, _ in in_turns(["a", "b"], 3)] == [0, 1, 1, 0, 0, 1]  # type: ignore[list-item]
