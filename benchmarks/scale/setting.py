"""What is measured: a method, rows, keys and batches. A stream of keyed rows follows from a setting and a seed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

SOURCES, SOURCE_ROWS, CLASSES = 3, 100, 5
LARGE = 2**31  # bytes of memory that no measured run fills


@dataclass(frozen=True)
class Setting:
    """`rows` and `keys` are those of one worker; two workers get twice as many of both."""

    name: str
    method: str
    features: int
    rows: int
    labels: int = 20  # a key has learned so many at the end, on average
    batch: int = 500
    zipf: float = 0.0  # the i-th key has a share of 1 / i^zipf; 0: all are alike
    memory: int = LARGE
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def keys(self) -> int:
        return max(1, self.rows // self.labels)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


LINEAR, OWN, SMALL, RANK = "hedgerow-linear", "hedgerow", {"size": "small"}, {"rank": 128}
SETTINGS = [
    Setting("linear-20", LINEAR, 20, 12_000),
    Setting("linear-20-batch-50", LINEAR, 20, 6_000, batch=50),
    Setting("linear-20-batch-1000", LINEAR, 20, 16_000, batch=1_000),
    Setting("linear-20-labels-5", LINEAR, 20, 10_000, labels=5),
    Setting("linear-20-labels-50", LINEAR, 20, 12_000, labels=50),
    Setting("linear-20-skew", LINEAR, 20, 6_000, zipf=1.0),
    Setting("linear-20-memory", LINEAR, 20, 8_000, batch=200, memory=8 * 2**20),
    Setting("linear-200", LINEAR, 200, 6_000),
    Setting("linear-800", LINEAR, 800, 4_000, batch=100, options=RANK),
    Setting("own-20", OWN, 20, 8_000),
    Setting("own-20-batch-50", OWN, 20, 4_000, batch=50),
    Setting("own-20-skew", OWN, 20, 4_000, zipf=1.0),
    Setting("own-800", OWN, 800, 4_000, batch=100, options=SMALL),
    Setting("own-800-labels-5", OWN, 800, 3_000, labels=5, batch=100, options=SMALL),
]
BY_NAME = {setting.name: setting for setting in SETTINGS}


def centres(setting: Setting) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(CLASSES, setting.features))


def sources(setting: Setting) -> list[Any]:
    """Synthetic, so that any number of features can be had; single precision, as sensors give it."""
    from hedgerow.core.domains import Domain

    rng, at, found = np.random.default_rng(0), centres(setting), []
    for i in range(SOURCES):
        y = rng.integers(0, CLASSES, SOURCE_ROWS)
        found.append(
            Domain(f"source {i}", single(at[y] + rng.normal(size=(SOURCE_ROWS, setting.features)) + 0.3 * i), y)
        )
    return found


def single(X: np.ndarray) -> np.ndarray:
    return X.astype(np.float32).astype(np.float64)


def drawn_keys(setting: Setting, workers: int, seed: int) -> np.ndarray:
    """The keys of a stream, in order; which key is how frequent has nothing to do with its worker."""
    rng, n = np.random.default_rng(seed), setting.keys * workers
    rows = setting.rows * workers
    if not setting.zipf:
        return rng.integers(0, n, rows)
    weights = np.arange(1, n + 1) ** -setting.zipf
    return np.random.default_rng(2).permutation(n)[rng.choice(n, rows, p=weights / weights.sum())]


def drawn_rows(setting: Setting, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    return single(centres(setting)[y] + rng.normal(size=(n, setting.features))), y


def worker_of(keys: np.ndarray, workers: int) -> np.ndarray:
    """The worker of each key, by its hash (the finaliser of MurmurHash3)."""
    h = keys.astype(np.uint64)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        h = (h ^ (h >> np.uint64(33))) * np.uint64(factor)
    return ((h ^ (h >> np.uint64(33))) % np.uint64(workers)).astype(np.int64)
