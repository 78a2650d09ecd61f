"""Requests that wait: their writer is that of the moment they are executed; what waits together is done together."""

from __future__ import annotations

import threading
import time

import pytest
from support.live_models import make_model, make_rows

from hedgerow import OnlineTransferClassifier
from hedgerow.core.errors import InputError
from hedgerow.live import LiveModel

X, Y = make_rows(7, 200, shift=1.0)


@pytest.fixture
def live(tmp_path):
    with LiveModel.create(tmp_path / "live", make_model("pa")) as made:
        yield made


def until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize("verb", ["to_bytes", "snapshot"])
def test_nobody_sees_what_was_rolled_back(live, verb):
    """One thread is told that nothing was kept; another, which waited meanwhile, gets none of it."""
    live.predict_then_learn(X[:5], Y[:5])
    got = []
    other = threading.Thread(target=lambda: got.append(getattr(live, verb)()))

    def work(writer):
        writer.predict_then_learn(X[5:20], Y[5:20], None)
        other.start()
        until(lambda: live.waiting)
        raise InputError("nothing of this is kept")

    with pytest.raises(InputError, match="nothing of this is kept"):
        live.do_together(work)
    other.join()
    if verb == "to_bytes":
        assert OnlineTransferClassifier.from_bytes(got[0]).seen_ == 5
    assert live.clf.seen_ == live.stats()["labels"] == 5
    live._snapshots.wait()
    assert live.model_of_snapshot().seen_ == 5
    live.close()
    with LiveModel.open(live.folder) as again:
        assert again.clf.seen_ == 5
