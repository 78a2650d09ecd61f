"""How far a fleet goes (`benchmarks/scale`): the laws of its parts, and the simulation beside what was measured."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scale import counting, measure, page, simulate
from scale.cluster import Cluster
from scale.events import Run, weighted_quantiles
from scale.law import Law, Use
from scale.model import TERMS, Model, Shape, fit, least_squares, read
from scale.setting import LARGE, Setting, drawn_keys, sources, worker_of

from hedgerow.fleet import Base, Fleet

ROOT = Path(__file__).parents[1]
SHAPE = Shape(20, (20,) * 7, (5,) * 7, 0, 0, 100, 64)
MODEL = Model((1e-3, 2e-5, 2e-5, 1e-6, 1e-4, 1e-6, 1e-3, 5e-3, 1e-7, 1e-10, 1e-10), (1e-4, 1e-6, 1e-9), (1e-5, 1e-8))
QUIET = {"spread": 0.0, "slow": 0.0}


def cluster(workers=4, law=None, **options):
    return Cluster(MODEL, SHAPE, law or Law(1000 * workers), 170.0, 5e4, workers, **{**QUIET, **options})


# -- laws of keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [Law(10**9), Law(10**9, 1.0), Law(10**6, 0.7), Law(300, 1.2), Law(5)])
def test_the_shares_of_all_keys_are_one(law):
    count, p = law.buckets
    assert (count * p).sum() == pytest.approx(1)
    assert count.sum() == pytest.approx(law.keys, rel=1e-3)


def test_buckets_stand_for_their_keys():
    exact = np.arange(1, 100_001) ** -1.0
    exact /= exact.sum()
    count, p = Law(100_000, 1.0).buckets
    for requests in (100, 10_000, 1_000_000):
        assert (count * -np.expm1(-p * requests)).sum() == pytest.approx(-np.expm1(-exact * requests).sum(), rel=0.01)


@pytest.mark.parametrize("zipf", [0.0, 0.8, 1.1])
def test_ches_approximation_beside_a_memory_that_keeps_the_newest(zipf):
    n, room, rng = 2_000, 300, np.random.default_rng(0)
    weights = np.arange(1, n + 1) ** -zipf
    asked = rng.choice(n, 60_000, p=weights / weights.sum())
    held, missed = OrderedDict(), 0
    for i, key in enumerate(asked.tolist()):
        missed += key not in held and i >= 20_000
        held[key] = None
        held.move_to_end(key)
        if len(held) > room:
            held.popitem(last=False)
    size = float(SHAPE.memory_bytes(5.0))
    flat = replace(SHAPE, most=10**9)
    use = Use(Law(n, zipf), flat, 1e-9, 1, room * size)  # next to no label each: all keys are of one size
    assert use.miss_share == pytest.approx(missed / 40_000, rel=0.05)


def test_what_a_batch_asks_is_what_drawn_batches_ask():
    law, workers, rows = Law(3_000, 1.0), 3, 400
    use = Use(law, SHAPE, 5.0, workers, 1e12)
    weights, rng = np.arange(1, 3_001) ** -1.0, np.random.default_rng(1)
    drawn = [rng.choice(3_000, rows * workers, p=weights / weights.sum()) for _ in range(50)]
    distinct = np.mean([len(np.unique(keys)) for keys in drawn]) / workers
    assert use.counts(rows)["keys"] == pytest.approx(distinct, rel=0.03)
    assert use.counts(rows)["light"] + use.counts(rows)["own"] == pytest.approx(rows, rel=0.03)


def test_keys_are_spread_over_workers():
    found = np.bincount(worker_of(np.arange(100_000), 7), minlength=7)
    assert found.min() > 0.97 * found.max()


# -- counts and costs -------------------------------------------------------------------------------------------


def test_what_is_counted_of_a_batch():
    labels = counting.Labels(most=4, is_missing=lambda key: key == 2)
    labels.labels.update({1: 3, 2: 2})
    labels.visits.update({1: 3, 2: 1})
    found = labels.before([1, 1, 2, 3])
    assert found == {
        "rows": 4, "keys": 3, "misses": 1, "light": 2, "past": 2 + 1, "calls": 4, "own": 5, "made": 1, "again": 2,
    }  # fmt: skip
    assert labels.labels == {1: 5, 2: 3, 3: 1}


def test_a_fit_finds_the_seconds_that_made_its_rows():
    rng = np.random.default_rng(0)
    A = rng.uniform(1, 100, (60, 11)) * [1, 100, 100, 10, 1, 10, 1, 1, 1e4, 1e7, 1e7]
    assert least_squares(A, A @ MODEL.seconds) == pytest.approx(MODEL.seconds, rel=1e-6)


@pytest.mark.parametrize(("method", "t"), [("hedgerow-linear", 5), ("hedgerow-linear", 30), ("hedgerow", 20)])
def test_the_formulas_of_a_keys_bytes_are_those_of_a_fleet(method, t):
    setting = Setting("x", method, 6, 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(t, 6)).astype(np.float32).astype(float)
    with Fleet(Base.fit(sources(setting), method)) as fleet:
        for i in range(t):
            fleet.learn(["k"], X[i : i + 1], [int(rng.integers(0, 5))])
        shape = Shape.of(counting.shape_of(fleet))
        assert len(fleet.to_bytes("k")) == shape.state_bytes(t)  # which writes what is fresh
        assert fleet.stats()["bytes"] == shape.memory_bytes(t)


# -- many workers -----------------------------------------------------------------------------------------------


def test_below_its_capacity_a_cluster_keeps_up_and_is_as_busy_as_its_load():
    one = cluster(8)
    most, why = one.capacity
    assert why == "workers"
    found = Run(one, 0.7 * most, 12.0).run()
    assert found["kept_up"]
    assert found["rows_a_second"] == pytest.approx(0.7 * most, rel=0.03)
    assert 0.6 < found["used"]["workers"] < 0.8


def test_beyond_its_capacity_it_falls_behind():
    one = cluster(8)
    found = Run(one, 1.3 * one.capacity[0], 12.0).run()
    assert not found["kept_up"]
    assert found["rows_a_second"] == pytest.approx(one.capacity[0], rel=0.06)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"brokers": 1, "broker_gbit": 0.01}, "broker network"),
        ({"brokers": 1, "broker_cores": 1, "workers": 64}, "broker cores"),
        ({"machine_gbit": 0.01}, "worker network"),
        ({"machine_disk": 1e6}, "worker disk"),
        ({"store_gbit": 0.001}, "checkpoint store"),
        ({"law": Law(10**5, 1.0), "workers": 60}, "hottest worker"),
    ],
)
def test_what_is_scarce_is_named_and_is_busy(options, why):
    one = cluster(**{"checkpoint": 1.0, **options})
    most, found = one.capacity
    assert found == why
    run = Run(one, 0.9 * most, 6.0).run()
    assert max(run["used"], key=lambda name: run["used"][name] * (name != "hottest worker" or why == name)) == why
    assert run["used"][why] == pytest.approx(0.9, abs=0.12)


def test_a_hot_key_is_a_limit_that_more_workers_do_not_move():
    law = Law(10**6, 1.0)
    assert cluster(1000, law).capacity[0] < 1.5 * cluster(300, law).capacity[0]  # its worker has less beside it
    assert cluster(1000, Law(10**6)).capacity[0] > 3 * cluster(300, Law(10**6)).capacity[0]


def test_failures_make_some_answers_late_and_lose_none():
    calm, failing = Run(cluster(4), 2e4, 60.0), Run(cluster(4, mtbf=60.0, checkpoint=10.0), 2e4, 60.0)
    a, b = calm.run(), failing.run()
    assert a["failures"] == 0 < b["failures"]
    assert b["p99"] > 5 * a["p99"]
    for run in (calm, failing):
        under_way = run.c.workers * run.c.batch
        come = sum(queue.come(run.end) for queue in run.queues) + run.answered
        assert come == pytest.approx(2e4 * 60, abs=under_way + 5 * np.sqrt(2e4 * 60))


def test_a_run_is_the_same_for_the_same_seed():
    one = cluster(5, spread=0.2)
    assert Run(one, 1e4, 3.0).run() == Run(one, 1e4, 3.0).run()


def test_weighted_quantiles():
    assert weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([1, 98, 1]), (0.5, 0.99)) == [1.0, 2.0]


# -- beside what was measured -----------------------------------------------------------------------------------


def test_the_simulation_is_within_a_fifth_of_the_measured_workers():
    found, apart = simulate.checked(read())
    assert {one["workers"] for one in found} == {1, 2}
    assert len(found) >= 4 * 2 * 10
    assert apart == []


def test_the_recorded_counts_are_those_of_the_recorded_streams():
    rows = [row for row in read() if row["setting"]["memory"] == LARGE]
    assert len(rows) > 50
    for row in rows:
        setting, labels = Setting(**row["setting"]), set()
        keys = drawn_keys(setting, row["workers"], row["seed"])
        owner = worker_of(keys, row["workers"])
        for w, each in enumerate(row["each"]):
            count = counting.Labels(row["shape"]["most"], lambda key, known=labels: key not in known)
            own = keys[owner == w]
            found = dict.fromkeys(counting.COUNTS, 0)
            for at in range(0, len(own), setting.batch):
                batch = own[at : at + setting.batch].tolist()
                found = {name: found[name] + more for name, more in count.before(batch).items()}
                labels.update(batch)
            assert found == {name: sum(part[name] for part in each["parts"]) for name in counting.COUNTS}


def test_every_second_of_the_model_is_zero_or_more_and_most_are_more():
    model = fit(read())
    assert len(model.seconds) == len(TERMS)
    assert sum(second > 0 for second in model.seconds) >= 5


def test_the_page_is_what_the_recorded_rows_say():
    """If it fails: make how-far."""
    text = page.page(read(), read(simulate.SIMULATED))
    assert "{{" not in text
    assert (ROOT / "docs" / page.PAGE).read_text(encoding="utf-8") == text


def test_two_real_workers_answer_everything():
    setting = Setting("small", "hedgerow-linear", 4, 240, labels=6, batch=50)
    data = Base.fit(sources(setting), setting.method).to_bytes()
    workers = [measure.Worker(), measure.Worker()]
    try:
        for worker in workers:
            worker.ask(b"c" + data)
        row = measure.run(setting, workers, 0, {"bytes": len(data)})
    finally:
        for worker in workers:
            worker.quit()
    assert sum(part["rows"] for each in row["each"] for part in each["parts"]) == 480
    assert sum(each["checkpoint"]["rows"] for each in row["each"]) == 480
    assert all(0 < each["share"] <= 1.01 for each in row["each"])
    assert row["latency_p99"] >= row["latency_p50"] > 0
    assert row["moved_bytes"] > 480 * 4 * 8
