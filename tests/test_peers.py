"""The comparison with other packages (`benchmarks/peers`): nobody looks ahead, limits are kept and said."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from peers import cell, findings, fold, rows, table
from peers.peer import SOURCES, TARGET, Peer, one_hot
from peers.streams import MAPS, Stream, features, mapped


def stream(n=12, K=3, seed=0):
    rng = np.random.default_rng(seed)
    sources = [rng.normal(i, 1 + i, size=(20, 4)) for i in range(2)]
    codes = [rng.integers(0, K, 20) for _ in sources]
    target = rng.normal(3, 2, size=(n, 4))
    together = rng.permutation(40)
    return Stream(sources, codes, together, target[:4] + 1, target, rng.integers(0, K, n), np.arange(K), "")


class LastLabel(Peer):
    """Predicts the label before; burns CPU seconds where asked."""

    row_by_row = True

    def __init__(self, K=3, burn=0.0):
        self.K, self.burn, self.last = K, burn, None

    def predict(self, row):
        return None if self.last is None else one_hot(self.last, self.K)

    def learn(self, row, code):
        self.last = code
        until = time.process_time() + self.burn
        while time.process_time() < until:
            pass


def walk(peer, given, training, limit=60.0):
    return cell.walk(peer, given, [peer.form(x) for x in given.rows], training, limit)


@pytest.mark.parametrize("input_map", MAPS)
@pytest.mark.parametrize("target_only", [True, False])
def test_a_row_is_mapped_by_what_came_before_it(input_map, target_only):
    given = stream()
    other = replace(given, rows=np.vstack([given.rows[:6], given.rows[6:] * 3 - 1]))
    a, b = (mapped(s, input_map, target_only).rows for s in (given, other))
    np.testing.assert_array_equal(a[:6], b[:6])
    assert not np.allclose(a[6:], b[6:])


def test_a_label_comes_after_the_prediction_and_no_prediction_is_a_mistake():
    given = stream()
    done = walk(LastLabel(), given, TARGET)
    assert done.wrong == [True, *(given.codes[1:] != given.codes[:-1]).tolist()]
    assert done.finished
    assert done.source_rows == 0
    np.testing.assert_allclose(done.shares[0], 1 / 3)
    last_of_sources = np.concatenate(given.source_codes)[given.together[-1]]
    done = walk(LastLabel(), given, SOURCES)
    assert done.wrong[0] == (given.codes[0] != last_of_sources)
    assert done.source_rows == 40


def test_a_run_that_meets_its_limit_says_how_far_it_got():
    done = walk(LastLabel(burn=0.03), stream(n=400), SOURCES, limit=0.5)
    assert not done.finished
    assert 0 < done.source_rows < 40
    assert 0 < len(done.wrong) < 400
    assert walk(LastLabel(burn=0.001), stream(), SOURCES, limit=30).finished


def test_features_of_a_window():
    window = np.array([[[1.0], [3.0], [2.0]]])
    np.testing.assert_allclose(features(window), [[2.0, np.sqrt(2 / 3), 1.0, 3.0, 1.5]])


def row(wrong, method="hedgerow", n=8, **more):
    wrong = np.array(wrong, dtype=bool)
    job = {"task": "dslr", "method": method, "variant": "default", "training": SOURCES, "split": 20, "trial": 0}
    counts = {"n": len(wrong), "stream": n, "mistakes": int(wrong.sum()), "source_rows": 5, "source_total": 5}
    finished = {"finished": len(wrong) == n, "limit": 60, "early": 1, "calibration": 0.1, "versions": {"numpy": "2"}}
    cost = {"seconds_online": 0.1, "seconds_offline": 1.0, "memory_mib": 3.0}
    return {**job, **counts, **finished, **cost, "wrong": np.packbits(wrong).tobytes().hex(), **more}


def test_rows_are_kept_and_a_later_row_of_the_same_run_counts(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows.append(row([1] * 8), path)
    path.write_text(path.read_text() + '{"task": "dslr", "meth')  # a killed run
    rows.append(row([0] * 8), path)
    rows.append(row([1, 0] * 4, "VW --oaa"), path)
    found = rows.read(path)
    assert [(r["method"], r["mistakes"]) for r in found] == [("hedgerow", 0), ("VW --oaa", 4)]
    rows.compact(path)
    assert [json.loads(line) for line in path.read_text().splitlines()] == found


def test_an_unfinished_run_stands_beside_ours_on_the_same_rows():
    ours, theirs = row([0, 1, 0, 0, 1, 1, 1, 1]), row([1, 1, 0, 1], "river ARF", source_rows=3)
    grid = fold.Grid.of([ours, theirs])
    line = fold.Line("river ARF", "default", SOURCES)
    assert table.cell(grid, line, "dslr") == "(75.0 of 4/8, ours 25.0)†"
    assert table.cell(grid, fold.own_line(), "dslr") == "62.50"
    assert findings.gap(grid, line) is None
    assert table.cell(fold.Grid.of([ours]), line, "dslr") == "·"


def test_the_page_says_where_we_lose():
    ours = row([0, 0, 0, 1, 1, 1, 1, 1] * 4, n=32)
    better, worse = row([0] * 32, "VW --oaa", 32), row([1] * 32, "river ARF", 32)
    broken = {**row([], "river SRP"), "error": "ValueError: no"}
    text = "\n".join(table.page([ours, better, worse, broken]))
    assert "**Where we lose:** VW --oaa, default on DSLR (0.0 against 62.5 %)" in text
    assert "fewer mistakes than the peer in 1, as many in 0, more in 1" in text
    assert "**Failed**: river SRP, default on DSLR (ValueError: no)" in text
    assert findings.sign_test(fold.Grid.of([ours, better]), fold.Line("VW --oaa", "default", SOURCES), "dslr") < 1e-5


def test_the_better_setting_is_picked_on_the_streams_that_both_finished():
    ours = [row([0] * 8, task=t) for t in ("dslr", "webcam")]
    default = row([1] + [0] * 7, "VW --oaa")
    other = [
        row([1] * k + [0] * (8 - k), "VW --oaa", variant="reasonable", task=t) for k, t in ((2, "dslr"), (0, "webcam"))
    ]
    grid = fold.Grid.of([*ours, default, *other])
    assert [line.variant for line in findings.best_lines(grid)] == ["default"]
    assert [line.variant for line in findings.best_lines(fold.Grid.of([*ours, *other]))] == ["reasonable"]
