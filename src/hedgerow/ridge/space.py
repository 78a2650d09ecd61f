"""A space: one feature map, one P, several heads that share it, and (if it has one) the self-labelled pool.

Heads of a space: one that trusts all sources alike, one for each source that trusts the others a little (EPSILON), and
where asked one that knows no source. The target's weights are those of the sources plus a free deviation, variance tau.

The pool: every RELABEL labels each head labels the warm-up rows by its pool-free weights; a second copy of the
regression carries them as observations of a small weight with those labels, and only that copy predicts. Its P does
not depend on the labels, so both copies follow the same updates, and a relabelling is M += w P U' (C[new] - C[old]).
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import Array
from hedgerow.moments import class_sums
from hedgerow.preprocess import unit
from hedgerow.ridge.maps import Map
from hedgerow.ridge.regression import deviation_prior, run_block, source_prior, with_rows

EPSILON = 0.03  # how much a source's own head trusts the other sources
RELABEL = 50  # labels between two labellings of the pool


@dataclass(frozen=True)
class Settings:
    """The constants of a space: ridge, trust in the sources, variance of the deviation, codes, weight of the pool."""

    name: str
    lam: float
    trust: float
    tau: float
    class_codes: bool = False
    pool: float = 0.0
    target_only: bool = False


class Part(MutableMapping[str, Array]):
    """The arrays of a learner's state whose names start with a prefix, under their short names."""

    def __init__(self, state: dict[str, Array], prefix: str) -> None:
        self.state, self.prefix = state, prefix

    def __getitem__(self, name: str) -> Array:
        return self.state[self.prefix + name]

    def __setitem__(self, name: str, array: Array) -> None:
        self.state[self.prefix + name] = array

    def __delitem__(self, name: str) -> None:
        del self.state[self.prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name[len(self.prefix) :] for name in self.state if name.startswith(self.prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Space:
    """What a space does; its arrays are a part of the learner's state."""

    def __init__(self, settings: Settings, arrays: MutableMapping[str, Array]) -> None:
        self.settings, self.arrays = settings, arrays
        self.map = Map(arrays.get("A"), arrays.get("landmarks"))

    @property
    def heads(self) -> int:
        """How many heads share the space."""
        return len(self.arrays["widths"])

    @classmethod
    def start(
        cls,
        settings: Settings,
        arrays: MutableMapping[str, Array],
        mapping: Map,
        sources: Sequence[Array],
        codes: Sequence[Array],
        pool: Array,
        K: int,
    ) -> Space:
        """The prior from the sources (Gram matrices and class sums only), and the pool with its first labels."""
        Z = [mapping(X) for X in sources]
        d = mapping(pool[:0]).shape[1]
        G = [z.T @ z for z in Z]
        both = [class_sums(z, y, K) for z, y in zip(Z, codes, strict=True)]
        counts, sums = [c for c, _ in both], [s for _, s in both]
        tables, priors = [], []
        for w in weightings(len(Z)):
            table = _class_codes(w, sums, counts) if settings.class_codes else np.eye(K)
            tables.append(table)
            priors.append(source_prior(G, sums, w, table, settings.lam, settings.trust))
        if settings.target_only or not Z:
            tables.append(np.eye(K))
            priors.append(np.zeros((d, K)))
        arrays.update(mapping.arrays())
        arrays["P"] = deviation_prior(G, d, settings.lam, settings.trust, settings.tau)
        arrays["M"] = np.hstack(priors)
        arrays["codes"] = np.hstack(tables)
        arrays["widths"] = np.array([table.shape[1] for table in tables])
        space = cls(settings, arrays)
        if settings.pool and len(pool):
            space._add_pool(mapping(pool))
        return space

    def _add_pool(self, U: Array) -> None:
        a = self.arrays
        a["U"] = U
        a["labels"] = self._labels(U)
        a["P1"], a["M1"] = with_rows(a["P"], a["M"], U, self._targets(a["labels"]), self.settings.pool)

    # -- rows ---------------------------------------------------------------------------------------------------

    def scores(self, X: Array) -> Array:
        """Scores of every head for rows that are only predicted (B x heads x K), centred over the classes."""
        M = self.arrays["M1"] if "M1" in self.arrays else self.arrays["M"]
        return self._scores_of(self.map(X) @ M)

    def run(self, X: Array, y: Array, noise: Array) -> Array:
        """Scores of every head before each label; the regressions learn the rows (noise: 1/weight, or never)."""
        Z, a = self.map(X), self.arrays
        Y = a["codes"][np.maximum(y, 0)]
        fits = run_block(a["P"], a["M"], Z, Y, noise)
        if "M1" in a:
            fits = run_block(a["P1"], a["M1"], Z, Y, noise)
        return self._scores_of(fits)

    def relabel(self) -> None:
        """The pool's labels by the weights so far."""
        a = self.arrays
        if "U" not in a:
            return
        labels = self._labels(a["U"])
        change = self._targets(labels) - self._targets(a["labels"])
        a["M1"] += self.settings.pool * a["P1"] @ (a["U"].T @ change)
        a["labels"] = labels

    def grow(self, extra: int) -> None:
        """New classes: a column of the codes each, orthogonal to all others; what was learned so far had zero there."""
        a = self.arrays
        tables, means, means1 = [], [], []
        for begin, end in self._spans():
            table = a["codes"][:, begin:end]
            grown = np.zeros((len(table) + extra, table.shape[1] + extra))
            grown[: len(table), : table.shape[1]] = table
            grown[len(table) :, table.shape[1] :] = np.eye(extra)
            tables.append(grown)
            means.append(np.pad(a["M"][:, begin:end], ((0, 0), (0, extra))))
            if "M1" in a:
                means1.append(np.pad(a["M1"][:, begin:end], ((0, 0), (0, extra))))
        a["codes"], a["M"] = np.hstack(tables), np.hstack(means)
        a["widths"] = a["widths"] + extra
        if means1:
            a["M1"] = np.hstack(means1)

    # -- codes --------------------------------------------------------------------------------------------------

    def _spans(self) -> list[tuple[int, int]]:
        ends = np.cumsum(self.arrays["widths"])
        return list(zip(np.concatenate([[0], ends[:-1]]).tolist(), ends.tolist(), strict=True))

    def _scores_of(self, fits: Array) -> Array:
        """score_k = C_k . f - |C_k|^2/2, minus its mean over the classes."""
        out = np.empty((len(fits), self.heads, len(self.arrays["codes"])))
        for h, (begin, end) in enumerate(self._spans()):
            C = self.arrays["codes"][:, begin:end]
            out[:, h] = fits[:, begin:end] @ C.T - 0.5 * (C * C).sum(axis=1)
        return np.asarray(out - out.mean(axis=2, keepdims=True))

    def _labels(self, U: Array) -> Array:
        """The class that each head gives each row of the pool (rows x heads), by the pool-free weights."""
        return np.asarray(self._scores_of(U @ self.arrays["M"]).argmax(axis=2))

    def _targets(self, labels: Array) -> Array:
        parts = [self.arrays["codes"][labels[:, h], begin:end] for h, (begin, end) in enumerate(self._spans())]
        return np.hstack(parts)


def weightings(n: int) -> list[Array]:
    """How much each head trusts each source: all alike; then each source alone, the others at EPSILON.

    >>> [w.tolist() for w in weightings(2)]
    [[1.0, 1.0], [1.0, 0.03], [0.03, 1.0]]
    """
    if not n:
        return []
    return [np.ones(n)] + ([np.where(np.arange(n) == i, 1.0, EPSILON) for i in range(n)] if n > 1 else [])


def _class_codes(weights: Array, sums: list[Array], counts: list[Array]) -> Array:
    """Unit centred source class means, written in a basis of their span: one regression serves all classes."""
    count = sum(w * c for w, c in zip(weights, counts, strict=True))
    means = sum(w * s for w, s in zip(weights, sums, strict=True)) / np.maximum(count, 1e-9)[:, None]
    u, s, _ = np.linalg.svd(unit(means - means.mean(axis=0)), full_matrices=False)
    kept = s > 1e-9 * max(s[0], 1e-300)
    return np.asarray((u * s)[:, kept])
