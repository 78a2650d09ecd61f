"""Many workers: what is assumed of them, of the network and of the disks, and at which load each part is full."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scale.law import FOREVER, Law, Use
from scale.model import HEAD, Model, Shape

GBIT = 1e9 / 8  # bytes a second
ALIKE = 0.7  # the hottest worker can do so much of what a usual one can: it is none
DISK = 1e-4  # seconds of a read from a solid-state disk that the system has not in memory: an assumption


@dataclass(frozen=True)
class Cluster:
    """Workers of a core each; a machine has `cores` of them behind one network card. Rates are rows a second."""

    model: Model
    shape: Shape
    law: Law
    row_bytes: float
    constants: float
    workers: int
    labels: float = 20.0
    batch: int = 1000
    linger: float = 0.05
    memory: float = 8e9  # bytes a worker
    cores: int = 16
    machine_gbit: float = 10.0
    machine_disk: float = 1e9  # bytes a second that a machine writes
    brokers: int = 4
    broker_gbit: float = 10.0
    broker_cores: int = 16
    checkpoint: float = 60.0
    store_gbit: float = 40.0  # where checkpoints go, for all workers together
    spread: float = 0.15  # standard deviation of the logarithm of a batch's seconds
    slow: float = 0.01  # of the workers are stragglers,
    slowness: float = 1.3  # so many times slower
    mtbf: float = FOREVER  # seconds between failures of a worker
    seed: int = 0

    @cached_property
    def hot(self) -> np.ndarray:
        return self.law.hot(self.workers)

    @cached_property
    def use(self) -> Use:
        return Use(self.law, self.shape, self.labels, self.workers, self.memory, len(self.hot))

    @cached_property
    def owner(self) -> np.ndarray:
        """The worker of each hot key."""
        return np.random.default_rng(self.seed).integers(0, self.workers, len(self.hot))

    @cached_property
    def shares(self) -> np.ndarray:
        """Of all rows, by worker."""
        found = np.full(self.workers, (1.0 - self.hot.sum()) / self.workers)
        np.add.at(found, self.owner, self.hot)
        return found

    @cached_property
    def slowed(self) -> np.ndarray:
        found = np.ones(self.workers)
        found[np.random.default_rng(self.seed + 1).permutation(self.workers)[: round(self.slow * self.workers)]] = (
            self.slowness
        )
        return found

    def seconds(self, w: int, rows: float, since: float = FOREVER) -> float:
        """A batch of a worker, with its part of the checkpoint: some states are written with every batch."""
        return self.learned(w, rows, since) + rows * self.checkpointed[0]

    @cached_property
    def usual(self) -> int:
        """A worker with a usual share of the rows."""
        return int(np.argsort(self.shares)[self.workers // 2])

    @cached_property
    def checkpointed(self) -> tuple[float, float]:
        """Seconds and bytes of a row: each key that changed in an interval is written once, with its new rows."""
        rows = self.checkpoint * self.batch / self.learned(self.usual, self.batch)
        keys = self.use.counts(rows)["keys"]
        written = HEAD * keys + rows * (4 * self.shape.features + 1)
        a_key, a_byte = self.model.checkpoint
        return (a_key * keys + a_byte * written) / rows, written / rows

    def learned(self, w: int, rows: float, since: float = FOREVER) -> float:
        """A batch without the checkpoint."""
        p = self.hot[self.owner == w] if len(self.hot) else self.hot
        mine, t = p / self.shares[w] * rows, p * self.law.keys * self.labels
        counts = self.use.counts(max(rows - mine.sum(), 1e-9), since)
        there, own = -np.expm1(-mine), t > self.shape.most
        counts = {**counts, "rows": rows, "keys": counts["keys"] + there.sum()}
        counts["calls"] += there[own].sum()
        counts["own"] += mine[own].sum()
        counts["light"] += mine[~own].sum()
        counts["past"] += (mine * t)[~own].sum()
        return self.model.batch(self.shape, counts, self.row_bytes) + DISK * counts["misses"]

    @property
    def feeder_seconds(self) -> float:
        """Of a row in a full batch."""
        return self.model.fed(self.batch, self.row_bytes) / self.batch

    def full_batch(self, w: int) -> float:
        """Seconds of a worker for a batch that it waits for, writes down and works on, one after the other."""
        moved = self.batch * self.row_bytes * (1 / self.broker_gbit + 1 / self.machine_gbit) / GBIT
        written = self.batch * self.journal_bytes / self.machine_disk
        return self.batch * self.feeder_seconds + moved + written + self.seconds(w, self.batch)

    @property
    def journal_bytes(self) -> int:
        """Of a row, written before its label is learned."""
        return 8 * self.shape.features + 10

    @cached_property
    def limits(self) -> dict[str, float]:
        """Rows a second at which each part is busy all the time; a straggler only delays, its keys can be moved."""
        hottest = int(self.shares.argmax())
        fed = np.bincount(np.arange(self.workers) % self.brokers, self.shares, self.brokers).max()
        placed = np.bincount(np.arange(self.workers) // self.cores, self.shares).max()
        found = {
            "workers": self.workers * self.batch / self.full_batch(self.usual),
            "broker network": self.broker_gbit * GBIT / self.row_bytes / fed,
            "broker cores": self.broker_cores / self.feeder_seconds / fed,
            "worker network": self.machine_gbit * GBIT / self.row_bytes / placed,
            "worker disk": self.machine_disk / self.journal_bytes / placed,
            "checkpoint store": self.store_gbit * GBIT / self.checkpointed[1],
        }
        if len(self.hot):
            found["hottest worker"] = self.batch / self.full_batch(hottest) / self.shares[hottest]
        return found

    @property
    def capacity(self) -> tuple[float, str]:
        """Rows a second, and what is full then; a worker that is little hotter than the others is one of them."""
        why = min(self.limits, key=lambda name: self.limits[name])
        most = self.limits[why]
        usual = why == "hottest worker" and most > ALIKE * self.limits["workers"]
        return float(most), "workers" if usual else why
