"""A space: one feature map, one P, several heads that share it, and (if it has one) the self-labelled pool.

Heads of a space: one that trusts all sources alike, one for each source that trusts the others a little, and
where asked one that knows no source. The target's weights are those of the sources plus a free deviation, variance tau.

The pool: every RELABEL labels each head labels the warm-up rows by its pool-free weights; a second copy of the
regression carries them as observations of a small weight with those labels, and only that copy predicts. Its P does
not depend on the labels, so both copies follow the same updates, and a relabelling is M += w P U' (C[new] - C[old]).
What the pool-free weights say of the pool, U M, follows M's own updates: U M += (U G') E. They are asked for nothing
else, so the rows that they have to learn wait, as they came, for the next labelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.moments import class_sums
from hedgerow.learners.ridge.class_targets import class_codes, weightings
from hedgerow.learners.ridge.maps import Map, usual_length
from hedgerow.learners.ridge.pool_labels import AGAIN, FIRST, biases, expected
from hedgerow.learners.ridge.regression import (
    NEVER,
    Regression,
    deviation_prior,
    source_prior,
    symmetric_product,
    with_rows,
)
from hedgerow.learners.ridge.state_part import Part

RELABEL = 50  # labels between two labellings of the pool, and between two steps of forgetting


@dataclass(frozen=True)
class Settings:
    """The constants of a space: ridge, trust in the sources, variance of the deviation, codes, weight of the pool.

    balanced: the labels of the pool are those of `hedgerow.learners.ridge.pool_labels`.
    keep < 1: every RELABEL labels the weights go back to their start by 1 - keep, and P with them.
    """

    name: str
    lam: float
    trust: float
    tau: float
    class_codes: bool = False
    pool: float = 0.0
    balanced: bool = False
    target_only: bool = False
    keep: float = 1.0

    def at(self, length: float) -> Settings:
        """The same constants for rows that are `length` times as long.

        A regression on z/s with a prior is one on z, with a ridge s^2 times as large, and a variance 1/s^2 of it.
        """
        return self if length == 1 else replace(self, lam=self.lam * length**2, tau=self.tau / length**2)


class Space:
    """What a space does; its arrays are a part of the learner's state."""

    def __init__(self, settings: Settings, arrays: Part) -> None:
        self.settings, self.arrays = settings, arrays
        self.map = Map(arrays.get("A"), arrays.get("landmarks"), arrays.get("H"))
        self._look()

    def _look(self) -> None:
        """Views on the arrays as they are now; to be taken again when they were replaced."""
        pool = Part(self.arrays.state, self.arrays.prefix + "pool.")
        self.alone = Regression(self.arrays)
        self.pooled = Regression(pool) if "P" in pool else None
        self.late = self.arrays.get("late.count", np.zeros(1, np.int64))
        self.widths = self.arrays["widths"].tolist()
        self.codes = self.arrays["codes"]
        self.classes = len(self.codes)
        self.tables = []
        if self.settings.class_codes:
            codes = [self.codes[:, begin:end] for begin, end in self._spans()]
            self.tables = [np.ascontiguousarray(C.T) for C in codes]
            self.half_squares = np.array([0.5 * (C * C).sum(axis=1) for C in codes])

    @property
    def heads(self) -> int:
        """How many heads share the space."""
        return len(self.widths)

    @property
    def dim(self) -> int:
        """The dimension of the space."""
        return len(self.alone.P)

    @classmethod
    def start(
        cls,
        settings: Settings,
        arrays: Part,
        mapping: Map,
        sources: Sequence[Array],
        codes: Sequence[Array],
        pool: Array,
        K: int,
    ) -> Space:
        """The prior from the sources (Gram matrices and class sums only), and the pool with its first labels."""
        Z = [mapping(X) for X in sources]
        settings = settings.at(usual_length(Z))
        d = mapping(pool[:0]).shape[1]
        G = [z.T @ z for z in Z]
        both = [class_sums(z, y, K) for z, y in zip(Z, codes, strict=True)]
        counts, sums = [c for c, _ in both], [s for _, s in both]
        tables, priors = [], []
        for w in weightings(len(Z)):
            table = class_codes(w, sums, counts) if settings.class_codes else np.eye(K)
            tables.append(table)
            priors.append(source_prior(G, sums, w, table, settings.lam, settings.trust))
        if settings.target_only or not Z:
            tables.append(np.eye(K))
            priors.append(np.zeros((d, K)))
        P, M = deviation_prior(G, d, settings.lam, settings.trust, settings.tau), np.hstack(priors)
        mapping, A = mapping.without_root()
        if A is not None:
            P, M = A @ P @ A.T, A @ M
        arrays.update(mapping.arrays())
        arrays.update(Regression.arrays(P, M, RELABEL))
        if settings.keep < 1:
            arrays["P0"], arrays["M0"] = arrays["P"].copy(), arrays["M"].copy()
        arrays["codes"] = np.hstack(tables)
        arrays["widths"] = np.array([table.shape[1] for table in tables])
        space = cls(settings, arrays)
        if settings.pool and len(pool):
            if settings.balanced:
                arrays["counts"] = np.stack([sum(counts, np.zeros(K)), np.zeros(K)])  # of the sources, of the target
                arrays["bias"] = np.zeros((space.heads, K))
            space._add_pool(mapping(pool))
        return space

    def _add_pool(self, U: Array) -> None:
        a = self.arrays
        U = U * ~self.alone.doubtful(U, np.full(len(U), 1 / self.settings.pool))[:, None]  # no outlier gets a label
        a["U"], a["UM"] = U, U @ a["M"]
        a["labels"] = self._labels(FIRST)
        P, M = with_rows(a["P"], a["M"], U, self._targets(a["labels"]), self.settings.pool)
        Part(a.state, a.prefix + "pool.").update(Regression.arrays(P, M, RELABEL))
        for name in ("G", "E", "waiting"):
            del a[name]
        a["late"], a["late.y"] = np.zeros((RELABEL, U.shape[1])), np.zeros(RELABEL, np.int64)
        a["late.noise"], a["late.count"] = np.zeros(RELABEL), np.zeros(1, np.int64)
        self._look()

    # -- rows ---------------------------------------------------------------------------------------------------

    def fit(self, Z: Array) -> Array:
        """What all heads say of rows in the space (B x q), by what was learned so far."""
        return (self.pooled or self.alone).fit(Z)

    def run(self, Z: Array, y: Array, noise: Array, turns: Sequence[int], before: Array | None = None) -> Array:
        """The same before each label; the regressions learn the rows (noise: 1/weight, or never).

        `turns` are the numbers of rows after which the pool is labelled again, and old labels fade.
        """
        Y, regression = self.codes[y], self.pooled or self.alone  # of a row without a label any code will do
        regression.open(len(Z))
        if turns and self.pooled:
            fits = self._run_pooled(self.pooled, Z, Y, noise, turns, self._label_pool(Z, y, noise, turns))
        elif turns and self.settings.keep < 1:
            fits = self._run_fading(Z, Y, noise, turns)
        else:
            fits = regression.run(Z, Y, noise, before)
            if self.pooled:
                self._wait(Z, y, noise)
        regression.close()
        return fits

    def _run_fading(self, Z: Array, Y: Array, noise: Array, turns: Sequence[int]) -> Array:
        fits = np.empty_like(Y)
        for begin, end in _parts(turns, len(Z)):
            fits[begin:end] = self.alone.run(Z[begin:end], Y[begin:end], noise[begin:end])
            if end in turns:
                self.alone.fold()
                self._forget()
        return fits

    def _run_pooled(
        self, pooled: Regression, Z: Array, Y: Array, noise: Array, turns: Sequence[int], labels: list[Array]
    ) -> Array:
        """The labels of the pool before and after each turn are known already; P is read once for all."""
        a, fits, turn = self.arrays, np.empty_like(Y), 0
        moved = np.any([(old != new).any(axis=1) for old, new in pairwise(labels)], axis=0)
        U = a["U"][moved]
        stored = symmetric_product(np.concatenate([Z, U]), pooled.P)
        for begin, end in _parts(turns, len(Z)):
            fits[begin:end] = pooled.run(Z[begin:end], Y[begin:end], noise[begin:end], stored=stored[begin:end])
            if end in turns:
                old, new = labels[turn][moved], labels[turn + 1][moved]
                rows, turn = (old != new).any(axis=1), turn + 1
                if rows.any():
                    change = self.settings.pool * (self._targets(new[rows]) - self._targets(old[rows]))
                    pooled.move(U[rows], stored[len(Z) :][rows], change)
        a["labels"] = labels[-1]
        return fits

    def _label_pool(self, Z: Array, y: Array, noise: Array, turns: Sequence[int]) -> list[Array]:
        """The pool-free copy learns all rows up to the last turn, the others wait: labels now and after each turn."""
        a, n, last = self.arrays, int(self.late[0]), turns[-1]
        now = np.flatnonzero(noise[:last] < NEVER)
        Z_now = np.concatenate([a["late"][:n], Z[now]])
        y_now = np.concatenate([a["late.y"][:n], y[now]])
        self.alone.open(len(Z_now))
        self.alone.run(Z_now, self.codes[y_now], np.concatenate([a["late.noise"][:n], noise[now]]))
        UG, E = a["U"] @ self.alone.G[: len(Z_now)].T, self.alone.E
        self.alone.close()
        self.late[0] = 0
        self._wait(Z[last:], y[last:], noise[last:])
        labels = [a["labels"]]
        for begin, end in pairwise([0, *(n + np.searchsorted(now, turns))]):
            a["UM"] += UG[:, begin:end] @ E[begin:end]
            if "counts" in a:
                a["counts"][1] += np.bincount(y_now[begin:end], minlength=self.classes)
            labels.append(self._labels(AGAIN))
        return labels

    def _wait(self, Z: Array, y: Array, noise: Array) -> None:
        """Rows that the pool-free copy is to learn at the next turn."""
        a, n, learned = self.arrays, int(self.late[0]), noise < NEVER
        end = n + int(learned.sum())
        a["late"][n:end], a["late.y"][n:end], a["late.noise"][n:end] = Z[learned], y[learned], noise[learned]
        self.late[0] = end

    def settle(self) -> None:
        """What waits is folded in, and places where nothing waits are empty."""
        regression, n = self.pooled or self.alone, int(self.late[0])
        regression.fold()
        for place in regression.kept:
            place[:] = 0
        for name in ("late", "late.y", "late.noise"):
            if name in self.arrays:
                self.arrays[name][n:] = 0

    def _forget(self) -> None:
        """M and P go some way back to where they started: old labels fade, what the sources know stays."""
        keep, a = self.settings.keep, self.arrays
        self.alone.M *= keep
        self.alone.M += (1 - keep) * a["M0"]
        self.alone.P *= keep**2
        self.alone.P += (1 - keep**2) * a["P0"]
        self.alone.measure()

    def grow(self, extra: int) -> None:
        """New classes: a column of the codes each, orthogonal to all others; what was learned so far had zero there."""
        a = self.arrays
        tables = []
        for begin, end in self._spans():
            table = a["codes"][:, begin:end]
            grown = np.zeros((len(table) + extra, table.shape[1] + extra))
            grown[: len(table), : table.shape[1]] = table
            grown[len(table) :, table.shape[1] :] = np.eye(extra)
            tables.append(grown)
        for name in ("M", "M0", "E", "UM", "pool.M", "pool.E"):
            if name in a:
                parts = [np.pad(a[name][:, b:e], ((0, 0), (0, extra))) for b, e in self._spans()]
                a[name] = np.hstack(parts)
        if "counts" in a:
            for name in ("counts", "bias"):
                a[name] = np.pad(a[name], ((0, 0), (0, extra)))
        a["codes"], a["widths"] = np.hstack(tables), a["widths"] + extra
        self._look()

    # -- codes --------------------------------------------------------------------------------------------------

    def _spans(self) -> list[tuple[int, int]]:
        ends = np.cumsum(self.widths)
        return list(zip(np.concatenate([[0], ends[:-1]]).tolist(), ends.tolist(), strict=True))

    def scores(self, fits: Array) -> Array:
        """score_k = C_k . f - |C_k|^2/2 (B x heads x K)."""
        if not self.tables:  # C is the identity
            return fits.reshape(len(fits), self.heads, self.classes)
        out, begin = np.empty((len(fits), self.heads, self.classes)), 0
        for h, C in enumerate(self.tables):
            out[:, h] = fits[:, begin : begin + len(C)] @ C
            begin += len(C)
        out -= self.half_squares
        return out

    def _labels(self, steps: int) -> Array:
        """The class that each head gives each row of the pool (rows x heads), by the pool-free weights."""
        a, F = self.arrays, self.scores(self.arrays["UM"])
        if "bias" in a:
            a["bias"] = biases(F, a["bias"], expected(*a["counts"]), steps)
            F = F - a["bias"]
        return np.asarray(F.argmax(axis=2))

    def _targets(self, labels: Array) -> Array:
        parts = [self.codes[labels[:, h], begin:end] for h, (begin, end) in enumerate(self._spans())]
        return np.hstack(parts)


def _parts(turns: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    return pairwise(sorted({0, *turns, rows}))
