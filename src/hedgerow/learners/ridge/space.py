"""A space: one feature map, one P, several heads that share it, and (if it has one) the self-labelled pool.

Heads of a space: one that trusts all sources alike, one for each source that trusts the others a little, and
where asked one that knows no source. The target's weights are those of the sources plus a free deviation, variance tau.

The pool: every RELABEL labels each head labels the warm-up rows by its pool-free weights; a second copy of the
regression learns them as observations of a small weight with those labels, and only that copy predicts. Its P does
not depend on the labels, so giving the pool new labels is M += w P U' (C[new] - C[old]). The fits of the pool-free
weights for the pool, U M, are updated with M: U M += (U G') E. Nothing else needs these weights, so the rows that they
must learn are pending, as they came (`late`), until the next labelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.moments import class_sums
from hedgerow.learners.ridge.class_targets import class_targets, grown, grown_columns, weightings
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

RELABEL = 50  # labels between two labellings of the pool, and between two steps of forgetting


@dataclass(frozen=True)
class Settings:
    """The constants of a space: ridge, trust in the sources, variance of the deviation, targets, weight of the pool.

    class_targets: classes are told apart by the sources' class means, not one by one. balanced: the labels of the pool
    are those of `pool_labels`. keep < 1: every RELABEL labels the weights go back to their start by 1 - keep, P too.
    """

    name: str
    lam: float
    trust: float
    tau: float
    class_targets: bool = False
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
    """What a space does. `constants` and `state` are its arrays by their short names; `ridge/layout.py` lists them."""

    def __init__(
        self, settings: Settings, constants: Mapping[str, Array], state: Mapping[str, Array], classes: int
    ) -> None:
        self.settings, self.constants, self.classes = settings, constants, classes
        self.map = Map(constants.get("A"), constants.get("landmarks"), constants.get("H"))
        base = constants["targets"], constants["widths"].tolist()
        self.targets, self.widths = grown(*base, classes)
        if settings.keep < 1:
            self.M0 = grown_columns(constants["prior.M"], base[1], classes - len(base[0]))
        pooled = "U" in constants
        self.alone = self._regression("", state, 0 if pooled else RELABEL)
        self.pooled = self._regression("pool.", state, RELABEL) if pooled else None
        self._read_state(state)
        self.tables = []
        if settings.class_targets:
            parts = [self.targets[:, begin:end] for begin, end in self._spans()]
            self.tables = [np.ascontiguousarray(C.T) for C in parts]
            self.half_squares = np.array([0.5 * (C * C).sum(axis=1) for C in parts])

    def _regression(self, prefix: str, state: Mapping[str, Array], room: int) -> Regression:
        """From the state, or from the prior, which is then shared."""
        if f"{prefix}M" in state:
            regression = Regression(state[f"{prefix}P"], state[f"{prefix}M"], room)
        else:
            P, M = self.constants[f"{prefix}prior.P"], self.constants[f"{prefix}prior.M"]
            regression = Regression(P, M, room, shared=True)
        if f"{prefix}G" in state:
            regression.take(state[f"{prefix}G"], state[f"{prefix}E"])
        return regression

    def _read_state(self, state: Mapping[str, Array]) -> None:
        """What the pool needs: fits of the pool-free weights, labels, biases, rows that these weights must learn."""
        if self.pooled is None:
            return
        self.U = self.constants["U"]
        d = self.U.shape[1]
        self.late, self.late_y = np.zeros((RELABEL, d)), np.zeros(RELABEL, np.int64)
        self.late_noise, self.late_count = np.zeros(RELABEL), len(state["late"])
        n = self.late_count
        self.late[:n], self.late_y[:n], self.late_noise[:n] = state["late"], state["late.y"], state["late.noise"]
        self.UM, self.labels = state["UM"], state["labels"]
        if self.settings.balanced:
            known = self.constants["counts"]
            self.source_counts = np.pad(known, (0, self.classes - len(known)))
            self.counts, self.bias = state["counts"], state["bias"]

    def arrays(self) -> dict[str, Array]:
        """The state by short names: the arrays themselves, but for those of pending rows."""
        found: dict[str, Array] = {}
        for prefix, regression in (("", self.alone), ("pool.", self.pooled)):
            if regression is None:
                continue
            if not regression.shared:
                found |= {f"{prefix}P": regression.P, f"{prefix}M": regression.M}
            n = regression.pending
            if n:
                found |= {f"{prefix}G": regression.G[:n].copy(), f"{prefix}E": regression.E[:n].copy()}
        if self.pooled is not None:
            n = self.late_count
            found |= {"UM": self.UM, "labels": self.labels, "late": self.late[:n].copy()}
            found |= {"late.y": self.late_y[:n].copy(), "late.noise": self.late_noise[:n].copy()}
            if self.settings.balanced:
                found |= {"counts": self.counts, "bias": self.bias}
        return found

    @property
    def regressions(self) -> list[Regression]:
        """The regression that learns true labels only, and the one that learns the pool too."""
        return [self.alone] if self.pooled is None else [self.alone, self.pooled]

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
        mapping: Map,
        sources: Sequence[Array],
        codes: Sequence[Array],
        pool: Array,
        K: int,
        weights: Sequence[Array | None],
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Constants and state: the prior from the sources (Gram matrices and class sums only), the pool's first labels.

        `weights` say how much each row of each source counts; None is one for all.
        """
        Z = [mapping(X) for X in sources]
        settings = settings.at(usual_length(Z))
        d = mapping(pool[:0]).shape[1]
        G = [z.T @ (z if w is None else w[:, None] * z) for z, w in zip(Z, weights, strict=True)]
        both = [class_sums(z, y, K, w) for z, y, w in zip(Z, codes, weights, strict=True)]
        counts, sums = [c for c, _ in both], [s for _, s in both]
        tables, priors = [], []
        for w in weightings(len(Z)):
            table = class_targets(w, sums, counts) if settings.class_targets else np.eye(K)
            tables.append(table)
            priors.append(source_prior(G, sums, w, table, settings.lam, settings.trust))
        if settings.target_only or not Z:
            tables.append(np.eye(K))
            priors.append(np.zeros((d, K)))
        P, M = deviation_prior(G, d, settings.lam, settings.trust, settings.tau), np.hstack(priors)
        mapping, A = mapping.without_root()
        if A is not None:
            P, M = A @ P @ A.T, A @ M
        constants = mapping.arrays() | {"prior.P": P, "prior.M": M, "targets": np.hstack(tables)}
        constants["widths"] = np.array([table.shape[1] for table in tables])
        if not (settings.pool and len(pool)):
            return constants, {}
        constants["counts"] = np.asarray(sum(counts, np.zeros(K)))
        return cls._with_pool(settings, constants, mapping(pool), K)

    @classmethod
    def _with_pool(
        cls, settings: Settings, constants: dict[str, Array], U: Array, K: int
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """The pool labelled for the first time, and the prior of the regression that carries it."""
        P, M, heads, d = constants["prior.P"], constants["prior.M"], len(constants["widths"]), U.shape[1]
        doubtful = Regression(P, M, 0).doubtful(U, np.full(len(U), 1 / settings.pool))
        U = U * ~doubtful[:, None]  # no outlier gets a label
        constants |= {"U": U, "pool.prior.P": P, "pool.prior.M": M}  # until they are known
        late = {"late": np.zeros((0, d)), "late.y": np.zeros(0, np.int64), "late.noise": np.zeros(0)}
        state = {"UM": U @ M, "labels": np.zeros((len(U), heads), np.int64)} | late
        if settings.balanced:
            state |= {"counts": np.zeros(K), "bias": np.zeros((heads, K))}
        else:
            del constants["counts"]
        space = cls(settings, constants, state, K)
        state["labels"] = space._labels(FIRST)
        if settings.balanced:
            state["bias"] = space.bias
        prior = with_rows(P, M, U, space._targets(state["labels"]), settings.pool)
        constants["pool.prior.P"], constants["pool.prior.M"] = prior
        return constants, state

    # -- rows ---------------------------------------------------------------------------------------------------

    def fit(self, Z: Array) -> Array:
        """What all heads say of rows in the space (B x q), by what was learned so far."""
        return (self.pooled or self.alone).fit(Z)

    def run(self, Z: Array, y: Array, noise: Array, turns: Sequence[int], before: Array | None = None) -> Array:
        """The same before each label; the regressions learn the rows (noise: 1/weight, or never).

        `turns` are the numbers of rows after which the pool is labelled again, and old labels fade.
        """
        Y, regression = self.targets[y], self.pooled or self.alone  # the target of an unlabelled row is not used
        regression.make_room(len(Z))
        if turns and self.pooled:
            fits = self._run_pooled(self.pooled, Z, Y, noise, turns, self._label_pool(Z, y, noise, turns))
        elif turns and self.settings.keep < 1:
            fits = self._run_fading(Z, Y, noise, turns)
        else:
            fits = regression.run(Z, Y, noise, before)
            if self.pooled:
                self._wait(Z, y, noise)
        regression.give_back_room()
        return fits

    def _run_fading(self, Z: Array, Y: Array, noise: Array, turns: Sequence[int]) -> Array:
        fits = np.empty_like(Y)
        for begin, end in _parts(turns, len(Z)):
            fits[begin:end] = self.alone.run(Z[begin:end], Y[begin:end], noise[begin:end])
            if end in turns:
                self.alone.flush()
                self._forget()
        return fits

    def _run_pooled(
        self, pooled: Regression, Z: Array, Y: Array, noise: Array, turns: Sequence[int], labels: list[Array]
    ) -> Array:
        """As `run`, with the labels of the pool before and after each turn given; P is read once for all of them."""
        fits, turn = np.empty_like(Y), 0
        moved = np.any([(old != new).any(axis=1) for old, new in pairwise(labels)], axis=0)
        U = self.U[moved]
        stored = symmetric_product(np.concatenate([Z, U]), pooled.P)
        for begin, end in _parts(turns, len(Z)):
            fits[begin:end] = pooled.run(Z[begin:end], Y[begin:end], noise[begin:end], stored=stored[begin:end])
            if end in turns:
                old, new = labels[turn][moved], labels[turn + 1][moved]
                rows, turn = (old != new).any(axis=1), turn + 1
                if rows.any():
                    change = self.settings.pool * (self._targets(new[rows]) - self._targets(old[rows]))
                    pooled.move(U[rows], stored[len(Z) :][rows], change)
        self.labels = labels[-1]
        return fits

    def _label_pool(self, Z: Array, y: Array, noise: Array, turns: Sequence[int]) -> list[Array]:
        """Teach the pool-free weights all rows up to the last turn; the pool's labels now and after each turn."""
        n, last = self.late_count, turns[-1]
        now = np.flatnonzero(noise[:last] < NEVER)
        Z_now = np.concatenate([self.late[:n], Z[now]])
        y_now = np.concatenate([self.late_y[:n], y[now]])
        self.alone.make_room(len(Z_now))
        self.alone.run(Z_now, self.targets[y_now], np.concatenate([self.late_noise[:n], noise[now]]))
        UG, E = self.U @ self.alone.G[: len(Z_now)].T, self.alone.E
        self.alone.give_back_room()
        self.late_count = 0
        self._wait(Z[last:], y[last:], noise[last:])
        labels = [self.labels]
        for begin, end in pairwise([0, *(n + np.searchsorted(now, turns))]):
            self.UM += UG[:, begin:end] @ E[begin:end]
            if self.settings.balanced:
                self.counts += np.bincount(y_now[begin:end], minlength=self.classes)
            labels.append(self._labels(AGAIN))
        return labels

    def _wait(self, Z: Array, y: Array, noise: Array) -> None:
        """Keep labelled rows for the pool-free weights, which learn them at the next turn."""
        n, learned = self.late_count, noise < NEVER
        end = n + int(learned.sum())
        self.late[n:end], self.late_y[n:end], self.late_noise[n:end] = Z[learned], y[learned], noise[learned]
        self.late_count = end

    def flush(self) -> None:
        """Add the pending rows of the regressions to P and M; rows for the next labelling of the pool stay pending."""
        for regression in self.regressions:
            regression.own()
            regression.flush()

    def _forget(self) -> None:
        """Move M and P some way back to where they started: old labels fade, what the sources know stays."""
        keep = self.settings.keep
        self.alone.own()
        self.alone.M *= keep
        self.alone.M += (1 - keep) * self.M0
        self.alone.P *= keep**2
        self.alone.P += (1 - keep**2) * self.constants["prior.P"]
        self.alone.measure()

    def grow(self, extra: int) -> dict[str, Array]:
        """The state with room for new classes: zero weights."""
        for regression in self.regressions:
            regression.own()
        found = self.arrays()
        for name in ("M", "E", "UM", "pool.M", "pool.E"):
            if name in found:
                found[name] = grown_columns(found[name], self.widths, extra)
        for name in ("counts", "bias"):
            if name in found:
                found[name] = np.pad(found[name], [(0, 0)] * (found[name].ndim - 1) + [(0, extra)])
        return found

    # -- class targets ------------------------------------------------------------------------------------------

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
        F = self.scores(self.UM)
        if self.settings.balanced:
            self.bias = biases(F, self.bias, expected(self.source_counts, self.counts), steps)
            F = F - self.bias
        return np.asarray(F.argmax(axis=2))

    def _targets(self, labels: Array) -> Array:
        parts = [self.targets[labels[:, h], begin:end] for h, (begin, end) in enumerate(self._spans())]
        return np.hstack(parts)


def _parts(turns: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    return pairwise(sorted({0, *turns, rows}))
