"""How frequent keys are, and what follows: distinct keys, hits of an LRU memory (Che's approximation), hot workers.

A billion keys are no objects here: keys of nearly the same frequency are one bucket. With key i asked for at the rate
p_i, a key is in a memory that keeps the newest if it was asked for within the last T requests, with probability
1 - exp(-p_i T); T is such that what is kept fills the memory (Che, Tung, Wang, 2002).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from scale.model import Shape

EXACT, BUCKETS = 2_000, 400  # ranks that are a bucket each, and buckets of the others
HOT = 0.001  # of the rows of an average worker
FOREVER = 1e18


@dataclass(frozen=True)
class Law:
    """`keys` of them; the i-th has a share of 1 / i^zipf, 0: all alike."""

    keys: int
    zipf: float = 0.0

    @cached_property
    def buckets(self) -> tuple[np.ndarray, np.ndarray]:
        """How many keys, and the share of each of them."""
        if not self.zipf:
            return np.array([float(self.keys)]), np.array([1.0 / self.keys])
        exact = np.arange(1, min(self.keys, EXACT) + 1)
        weights, counts = [exact ** -float(self.zipf)], [np.ones(len(exact))]
        if self.keys > EXACT:
            ends = np.unique(np.geomspace(EXACT, self.keys, BUCKETS).astype(np.int64)) + 0.5
            a, b, s = ends[:-1], ends[1:], self.zipf
            mass = np.log(b / a) if s == 1 else (b ** (1 - s) - a ** (1 - s)) / (1 - s)
            weights.append(mass / (b - a))
            counts.append(b - a)
        c, w = np.concatenate(counts), np.concatenate(weights)
        return c, w / (c * w).sum()

    def hot(self, workers: int) -> np.ndarray:
        """The shares of keys that a worker feels: each is where its hash puts it, all others are spread evenly."""
        count, p = self.buckets
        return p[(count == 1) & (p * workers > HOT)]


@dataclass(frozen=True)
class Use:
    """Keys of a law after so many labels each on average, on so many workers with so much memory each."""

    law: Law
    shape: Shape
    labels: float
    workers: int
    memory: float
    skip: int = 0  # buckets of hot keys, which `counts` leaves out

    @cached_property
    def t(self) -> np.ndarray:
        """Labels of the keys of each bucket."""
        return self.law.buckets[1] * self.law.keys * self.labels

    @cached_property
    def reach(self) -> float:
        """T: requests (of all workers together) after which a key that nobody asked for is out of memory."""
        count, p = self.law.buckets
        size = self.shape.memory_bytes(self.t)
        if (count * size).sum() <= self.workers * self.memory:
            return FOREVER
        low, high = 0.0, 1e15
        for _ in range(100):
            middle = (low + high) / 2 if low else high / 1e3
            full = (count * size * -np.expm1(-p * middle)).sum() > self.workers * self.memory
            low, high = (low, middle) if full else (middle, high)
        return high

    @property
    def miss_share(self) -> float:
        """Of all requests."""
        count, p = self.law.buckets
        return float((count * p * np.exp(-p * self.reach)).sum())

    def counts(self, rows: float, since: float = FOREVER) -> dict[str, float]:
        """What a batch of one worker asks of keys that are not hot; `since`: requests since its memory was empty."""
        found = _counts(self, _rounded(rows), min(self.reach, _rounded(since)))
        return {"rows": rows, **dict(zip(NAMES, found, strict=True))}


NAMES = ("keys", "misses", "light", "past", "calls", "own", "made", "again")


def _rounded(x: float) -> float:
    """To a twentieth, so that what was computed can be used again."""
    return FOREVER if x >= FOREVER else float(np.exp(np.round(20 * np.log(max(x, 1.0))) / 20))


@lru_cache(maxsize=20_000)
def _counts(use: Use, rows: float, reach: float) -> tuple[float, ...]:
    count, p = (part[use.skip :] for part in use.law.buckets)
    use_t, total = use.t[use.skip :], (count * p).sum()
    rows = rows / total  # of all keys, so that `rows` are of these
    there = count * -np.expm1(-p * rows * use.workers) / use.workers  # distinct keys of the batch
    missing = there * np.exp(-p * reach)
    mine = count * p * rows
    light = use_t <= use.shape.most
    t = np.minimum(use_t, use.shape.most)
    past = (mine * t)[light].sum() + (missing * t * np.maximum(t - 1, 0) / 2)[light].sum()
    return tuple(
        float(x)
        for x in (
            there.sum(), missing.sum(), mine[light].sum(), past, there[~light].sum(), mine[~light].sum(),
            missing[~light].sum(), (missing * t)[light].sum(),
        )
    )  # fmt: skip
