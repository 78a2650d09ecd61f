"""Many workers, simulated event by event: brokers feed them over a network; hot keys, stragglers and failures included.

A worker takes what has come for it, up to a batch, works on it for as long as the cost model says, and answers. Rows
are no objects: how many came is drawn (Poisson), keys follow a law (law.py). `Cluster` has all assumptions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from scale.cluster import GBIT, Cluster
from scale.law import FOREVER

START = 10.0  # seconds until a failed worker is missed, and a new one has begun: an assumption
SHARED = ("broker network", "broker cores", "worker network", "worker disk", "checkpoint store")


@dataclass
class Waiting:
    """Rows that have come for a worker and are not taken: when, and how many."""

    rate: float
    rng: np.random.Generator
    upto: float = 0.0
    parts: deque[list[float]] = field(default_factory=deque)
    total: int = 0

    def come(self, now: float) -> int:
        n = int(self.rng.poisson(self.rate * (now - self.upto))) if now > self.upto else 0
        if n:
            self.parts.append([(self.upto + now) / 2, n])
        self.upto, self.total = now, self.total + n
        return self.total

    def take(self, n: int) -> list[tuple[float, int]]:
        """When they came."""
        found, self.total = [], self.total - n
        while n:
            when, there = self.parts[0]
            some = min(n, int(there))
            found.append((when, some))
            n -= some
            if some == there:
                self.parts.popleft()
            else:
                self.parts[0][1] = there - some
        return found


class Run:
    """`rate` rows a second for `seconds`, of which the first third is not counted."""

    def __init__(self, cluster: Cluster, rate: float, seconds: float) -> None:
        self.c, self.rate, self.end = cluster, rate, seconds
        self.env, self.rng = simpy.Environment(), np.random.default_rng(cluster.seed + 2)
        resource = simpy.Resource
        self.nics = [resource(self.env) for _ in range(cluster.brokers)]
        self.feeders = [resource(self.env, cluster.broker_cores) for _ in range(cluster.brokers)]
        self.machines = [resource(self.env) for _ in range(-(-cluster.workers // cluster.cores))]
        self.store = resource(self.env)
        self.disks = [resource(self.env) for _ in self.machines]
        self.busy = dict.fromkeys(SHARED, 0.0)
        self.worked, self.done, self.answered, self.failures = np.zeros(cluster.workers), 0, 0, 0
        self.waits: list[float] = []
        self.weights: list[int] = []
        self.queues = [Waiting(rate * share, self.rng) for share in cluster.shares]

    def hold(self, name: str, resource: simpy.Resource, seconds: float) -> Iterator[Any]:
        with resource.request() as request:
            yield request
            yield self.env.timeout(seconds)
        if self.env.now > self.end / 3:
            self.busy[name] += seconds

    def worker(self, w: int) -> Iterator[Any]:
        c, env, queue = self.c, self.env, self.queues[w]
        yield env.timeout(c.linger * self.rng.random())
        since, dirty = FOREVER, 0
        saved = -c.checkpoint * self.rng.random()  # workers do not all write at once
        fails = self.rng.exponential(c.mtbf)
        while True:
            if env.now > fails:
                self.failures += 1
                since = yield from self.recover(w, dirty)
                fails = env.now + self.rng.exponential(c.mtbf)
            n = min(queue.come(env.now), c.batch)
            if n < c.batch:
                yield env.timeout(c.linger)
                n = min(queue.come(env.now), c.batch)
            if n:
                yield from self.work(w, n, queue.take(n), since)
                since, dirty = min(since + n * c.workers, FOREVER), dirty + n
            if env.now - saved > c.checkpoint:
                saved, dirty = env.now, 0

    def work(self, w: int, n: int, came: list[tuple[float, int]], since: float) -> Iterator[Any]:
        c, b = self.c, w % self.c.brokers
        size = n * c.row_bytes
        yield from self.hold("broker cores", self.feeders[b], c.model.fed(n, c.row_bytes))
        yield from self.hold("broker network", self.nics[b], size / (c.broker_gbit * GBIT))
        yield from self.hold("worker network", self.machines[w // c.cores], size / (c.machine_gbit * GBIT))
        yield from self.hold("worker disk", self.disks[w // c.cores], n * c.journal_bytes / c.machine_disk)
        written = n * c.checkpointed[1]
        yield from self.hold("checkpoint store", self.store, written / (c.store_gbit * GBIT))
        noise = float(np.exp(c.spread * self.rng.normal() - c.spread**2 / 2))
        seconds = c.seconds(w, n, since) * c.slowed[w] * noise
        yield self.env.timeout(seconds)
        self.answered += n
        if self.env.now > self.end / 3:
            self.worked[w] += seconds
            self.done += n
            for when, some in came:
                self.waits.append(self.env.now - when)
                self.weights.append(some)

    def recover(self, w: int, rows: int) -> Generator[Any, Any, float]:
        """A new process gets the constants and again the rows since the last checkpoint; keys are read as they come."""
        yield self.env.timeout(START + self.c.constants / (self.c.machine_gbit * GBIT))
        since = 1.0
        while rows > 0:
            n = min(rows, self.c.batch)
            yield self.env.timeout(self.c.seconds(w, n, since) * self.c.slowed[w])
            rows, since = rows - n, since + n * self.c.workers
        return since

    def run(self) -> dict[str, Any]:
        for w in range(self.c.workers):
            self.env.process(self.worker(w))
        self.env.run(until=self.end)
        span = self.end * 2 / 3
        p50, p99 = weighted_quantiles(np.array(self.waits), np.array(self.weights), (0.5, 0.99))
        machines, brokers = len(self.machines), self.c.brokers
        each = dict(zip(SHARED, (brokers, brokers * self.c.broker_cores, machines, machines, 1), strict=True))
        used = {name: busy / span / each[name] for name, busy in self.busy.items()}
        used |= {"workers": float(self.worked.mean() / span), "hottest worker": float(self.worked.max() / span)}
        return {
            "workers": self.c.workers, "rate": self.rate, "rows_a_second": self.done / span, "seconds": self.end,
            "kept_up": bool(self.done / span > 0.97 * self.rate), "p50": p50, "p99": p99, "used": used,
            "failures": self.failures,
        }  # fmt: skip


def weighted_quantiles(values: np.ndarray, weights: np.ndarray, at: tuple[float, ...]) -> list[float]:
    if not len(values):
        return [float("nan")] * len(at)
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    places = np.searchsorted(total, np.array(at) * total[-1])
    return [float(values[order][min(place, len(order) - 1)]) for place in places]
