"""What is simulated: loads on up to 1,000 workers, failures, stragglers, and what to buy for a load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scale.cluster import GBIT, Cluster
from scale.events import Run
from scale.law import FOREVER, Law
from scale.model import Model, Row, Shape, fit, medians

WORKERS = (1, 2, 5, 10, 30, 100, 300, 1000)
EVENTS, LEAST = 4_000, 30  # batches of a simulated run, about, and of each worker at least
LOADS = (10_000, 100_000, 1_000_000, 10_000_000)
BUSY = 0.7  # of its capacity: how busy what is bought may be


@dataclass(frozen=True)
class Scenario:
    """`of`: the measured setting whose sizes it has; `keys` a worker, or in all."""

    name: str
    of: str
    title: str
    keys_each: int = 0
    keys: int = 0
    zipf: float = 0.0

    def cluster(self, rows: Sequence[Row], model: Model, workers: int, **options: Any) -> Cluster:
        measured = medians([row for row in rows if row["setting"]["name"] == self.of])[self.of, 1]
        law = Law(self.keys or self.keys_each * workers, self.zipf)
        shape = Shape.of(measured["shape"])
        return Cluster(
            model, shape, law, measured["moved_bytes_a_row"], measured["constants_bytes"], workers, **options
        )


SCENARIOS = [
    Scenario("fits", "linear-20", "hedgerow-linear, 20 features, 100,000 keys a worker in memory", keys_each=100_000),
    Scenario("own", "own-20", "hedgerow, 20 features, 50,000 keys a worker in memory", keys_each=50_000),
    Scenario("wide", "linear-800", "hedgerow-linear, 800 features, 25,000 keys a worker in memory", keys_each=25_000),
    Scenario("billion", "linear-20", "hedgerow-linear, 20 features, 10^9 keys, all alike", keys=10**9),
    Scenario("skew", "linear-20", "hedgerow-linear, 20 features, 10^9 keys, Zipf 1.0", keys=10**9, zipf=1.0),
]
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def simulated(cluster: Cluster, rate: float, seconds: float = 0.0) -> dict[str, Any]:
    """A run long enough for EVENTS batches, and LEAST of each worker."""
    each = cluster.linger
    for _ in range(20):  # the longer a batch takes, the more rows the next one has
        rows = min(rate / cluster.workers * each, cluster.batch)
        each = cluster.linger + cluster.seconds(cluster.usual, max(rows, 1.0))
    return Run(cluster, rate, seconds or each * max(EVENTS / cluster.workers, LEAST)).run()


def over_workers(rows: Sequence[Row], model: Model) -> Iterator[dict[str, Any]]:
    """At loads below, near and beyond what the slowest part can do: does it keep up, and how late are answers?"""
    for scenario in SCENARIOS:
        for workers in WORKERS:
            cluster = scenario.cluster(rows, model, workers)
            most, why = cluster.capacity
            for load in (BUSY, 0.95, 1.1):
                said = simulated(cluster, load * most)
                yield {"kind": "workers", "scenario": scenario.name, "load": load, "why": why, "capacity": most,
                       "limits": cluster.limits, "miss_share": cluster.use.miss_share, **said}  # fmt: skip


def failures(rows: Sequence[Row], model: Model) -> Iterator[dict[str, Any]]:
    """50 workers at half load that fail, by the time between checkpoints; and stragglers among 100."""
    base = BY_NAME["fits"]
    for checkpoint in (10.0, 60.0):
        for mtbf in (FOREVER, 3600.0, 1200.0):
            cluster = base.cluster(rows, model, 50, checkpoint=checkpoint, mtbf=mtbf, linger=1.0, batch=10_000)
            said = simulated(cluster, 0.5 * cluster.capacity[0], 300.0)
            yield {"kind": "failures", "checkpoint": checkpoint, "mtbf": mtbf, **said}
    for slow, slowness in ((0.0, 1.0), (0.02, 1.3), (0.02, 2.0), (0.05, 2.0)):
        cluster = base.cluster(rows, model, 100, slow=slow, slowness=slowness, seed=3)
        for load in (0.4, BUSY):
            said = simulated(cluster, load * cluster.capacity[0], 10.0)
            there = int((cluster.slowed > 1).sum())
            yield {"kind": "stragglers", "slow": slow, "slowness": slowness, "there": there, "load": load, **said}


def to_buy(rows: Sequence[Row], model: Model) -> Iterator[dict[str, Any]]:
    """The fewest workers, of up to 1,000, that are BUSY at a load; as many brokers as it needs then."""
    for scenario in SCENARIOS:
        for load in LOADS:
            yield {"kind": "buy", "scenario": scenario.name, "load": load, **_bought(scenario, rows, model, load)}


def _bought(scenario: Scenario, rows: Sequence[Row], model: Model, load: float) -> dict[str, Any]:
    def with_brokers(workers: int) -> Cluster:
        one = scenario.cluster(rows, model, workers)
        seconds = max(one.row_bytes / (one.broker_gbit * GBIT), one.feeder_seconds / one.broker_cores)
        even = replace(one, brokers=max(1, int(np.ceil(load * seconds / BUSY))))
        hot = float(np.bincount(np.arange(workers) % even.brokers, one.shares).max() * even.brokers)
        return replace(one, brokers=max(1, int(np.ceil(load * seconds * hot / BUSY))))

    low, high = 1, max(WORKERS)
    if BUSY * with_brokers(high).capacity[0] < load:
        cluster = with_brokers(high)
        return {"enough": False, "most": BUSY * cluster.capacity[0], "why": cluster.capacity[1]}
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if BUSY * with_brokers(middle).capacity[0] >= load else (middle + 1, high)
    cluster = with_brokers(low)
    count, _ = cluster.law.buckets
    sizes = {
        "memory_bytes": float(min((count * cluster.shape.memory_bytes(cluster.use.t)).sum(), low * cluster.memory)),
        "disk_bytes": float((count * cluster.shape.state_bytes(cluster.use.t)).sum()),
    }
    said = simulated(cluster, load)
    return {"enough": True, "keys": cluster.law.keys, "brokers": cluster.brokers,
            "machines": -(-low // cluster.cores), "miss_share": cluster.use.miss_share, **sizes, **said}  # fmt: skip


def everything(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    model = fit(rows)
    yield from over_workers(rows, model)
    yield from failures(rows, model)
    yield from to_buy(rows, model)
