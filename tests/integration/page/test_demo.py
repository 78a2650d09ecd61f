"""The demonstration: it moves within seconds, drifts so that it is noticed, and leaves nothing behind."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.looking import until

from hedgerow.service import demo


def test_the_stream_has_new_orders_late_labels_and_labels_that_never_come():
    length = sum(count for count, _, _ in demo.CYCLE)
    rows = list(itertools.islice(demo.rows(seed=3), length))
    starved, _, _ = demo.CYCLE[-1]
    assert {row.delay for row in rows[-starved:]} == {None}
    never = Counter(row.delay is None for row in rows[:-starved])
    assert 0 < never[True] < 0.1 * never[False]
    assert min(row.delay for row in rows if row.delay is not None) >= demo.DELAYS[0]
    assert all(row.x.shape == (64,) and row.x.min() >= 0 and row.x.max() <= 16 for row in rows)
    other = list(itertools.islice(demo.rows(seed=4), 5))
    assert not np.array_equal(other[0].x, rows[0].x)


def test_drift_is_noticed_and_ends(tmp_path):
    """The stream as `serve --demo` sends it, without waiting: an alarm is raised by the drift and goes afterwards."""
    from hedgerow.live import LiveModel, Settings

    raised = {}
    with LiveModel.create(tmp_path / "digits", demo.model(), Settings(sync="normal")) as live:
        ends = list(itertools.accumulate(count for count, _, _ in demo.CYCLE))
        for at, row in enumerate(itertools.islice(demo.rows(seed=0), ends[-1]), start=1):
            if row.delay is None:
                live.predict(row.x)
            else:
                live.predict_then_learn(row.x[None], [row.y])
            if at in ends:
                raised[at] = [alarm["rule"] for alarm in live.alarms()]
    assert list(raised.values()) == [[], ["drift"], [], ["label-starvation"]]


@pytest.mark.slow
def test_serve_demo_moves_and_leaves_nothing_behind(serve, open_page, watch):
    watch.expected = "503|ERR_"  # before the model is there, and after the service has ended
    service = serve("--demo")
    until(lambda: "digits" in service.http.get("/v1/models").text, 20)
    page = open_page(f"{service.url}/")
    page.click("a:text-is('digits')", timeout=30_000)
    page.wait_for_url("**/models/digits")
    moved = "() => Number(document.querySelector('#labels').value) > 10 && document.querySelector('#so-far canvas')"
    page.wait_for_function(moved, timeout=30_000)
    folder = next(
        re.search(r'"folder": "([^"]+)"', line) for line in service.lines if '"started"' in line
    )[1]
    assert Path(folder).is_dir()
    assert service.stop() == 0
    assert not Path(folder).exists()
