"""A space: one feature map, one P, several heads that share it, and (if it has one) the pool.

A head trusts all sources alike, or one of them more than the others, or knows none. The target's weights are those of
the sources plus a free deviation, variance tau.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.linalg import from_upper, upper_of
from hedgerow.core.moments import class_sums
from hedgerow.core.source_rows import Part, Statistic
from hedgerow.ridge.maps import Map, octaves, single, usual_length
from hedgerow.ridge.pool import Pool
from hedgerow.ridge.regression import (
    Regression,
    Targets,
    class_targets,
    deviation_prior,
    grown_columns,
    source_prior,
)


# All that a space wants to know of a source: Gram matrix, class counts and class sums of its rows there.
@dataclass(frozen=True)
class Sums:
    """Z^T Z (d x d), N_k (K), sums by class (K x d), all as rows are weighed; and how many rows have which length."""

    gram: Array
    counts: Array
    totals: Array
    octaves: Array

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            *(
                mine + theirs
                for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)
            )
        )


@dataclass(frozen=True)
class InSpace(Statistic[Sums]):
    """The sums of a source's rows behind a map.

    >>> sums = InSpace(Map(), 2).of(Part(np.array([[3.0, 4.0]]), np.array([1])))
    >>> sums.gram.tolist(), sums.counts.tolist()
    ([[9.0, 12.0], [12.0, 16.0]], [0.0, 1.0])
    """

    map: Map
    K: int

    def of(self, part: Part) -> Sums:
        """Of some rows; the map makes doubles of them."""
        Z = self.map(part.X)
        gram = Z.T @ (Z if part.weight is None else part.weight[:, None] * Z)
        codes = np.full(len(Z), -1) if part.codes is None else part.codes
        return Sums(gram, *class_sums(Z, codes, self.K, part.weight), octaves(Z))


OWN_VARIANCE = 10.0  # of the weight of a column that no source has: nothing is known of it
OWN_MAP = -1  # in the place of the number of another space


@dataclass(frozen=True)
class Settings:
    """The constants of a space: ridge, trust in the sources, variance of the deviation, targets, weight of the pool.

    class_targets: the heads' targets are the sources' class means, not one by one. keep < 1: every FADE labels the
    weights go back to their start by 1 - keep, P too. Of a model: of: the number of the space before this one whose
    rows it takes, or OWN_MAP; map: how rows are mapped, "" (not at all), "A", "axes" or "landmarks" (`ridge/maps.py`);
    room: rows that the pool may have, 0 if there is none; heads: their names.
    """

    name: str
    lam: float
    trust: float
    tau: float
    class_targets: bool = False
    pool: float = 0.0
    keep: float = 1.0
    of: int = OWN_MAP
    map: str = ""
    room: int = 0
    heads: tuple[str, ...] = ()

    def check(self, number: int) -> None:
        """Refuse settings that cannot be those of the space of this number."""
        if self.map not in ("", "A", "axes", "landmarks", "landmarks+A"):
            raise InputError(f"unknown map {self.map!r}")
        sane = (
            self.lam > 0
            and self.trust >= 0
            and self.tau >= 0
            and self.pool >= 0
            and 0 < self.keep <= 1
        )
        pooled = self.pool and self.keep == 1 and self.of == OWN_MAP
        others = self.of == OWN_MAP or (self.of in range(number) and not self.map)
        if not sane or not others or not self.heads or self.room < 0 or (self.room and not pooled):
            raise InputError(f"{self} cannot be a space")

    def at(self, length: float) -> Settings:
        """The same constants for rows that are `length` times as long.

        A regression on z/s with a prior is one on z, with a ridge s^2 times as large, and a variance 1/s^2 of it.
        """
        return (
            self
            if length == 1
            else replace(self, lam=self.lam * length**2, tau=self.tau / length**2)
        )


class Space:
    """What a space does. `constants` and `state` are its arrays by their short names, see `ridge/learner.py`."""

    def __init__(
        self,
        settings: Settings,
        constants: Mapping[str, Array],
        state: Mapping[str, Array],
        classes: int,
    ) -> None:
        self.settings = settings
        self.constants = constants
        self.map = Map(constants.get("A"), constants.get("landmarks"), constants.get("axes"))
        self._base = constants.get("targets"), constants["widths"].tolist()
        self.targets = Targets(*self._base, classes)
        shared = "M" not in state  # with all models of the fit
        P, M = (
            (constants["prior.P"], constants["prior.M"])
            if shared
            else (from_upper(state["P"]), state["M"])
        )
        self.regression = Regression(P, M, shared=shared)
        self.pool = self._pool(state) if settings.room else None

    def _pool(self, state: Mapping[str, Array]) -> Pool:
        counts = np.pad(
            self.constants["counts"], (0, self.targets.classes - len(self.constants["counts"]))
        )
        U = self.constants.get("prior.U", np.empty(0))
        return Pool(self.targets, self.settings.pool, counts, self.settings.room, state, U)

    def arrays(self, pending: int) -> dict[str, Array]:
        """The state by short names, with so many pending rows; arrays that the space goes on with are not copied."""
        regression = self.regression
        arrays: dict[str, Array] = {}
        if not regression.shared:
            arrays |= {"P": upper_of(regression.P), "M": regression.M}
        if pending:
            arrays |= {"G": regression.G[:pending].copy(), "E": regression.E[:pending].copy()}
        return arrays if self.pool is None else arrays | self.pool.arrays()

    @property
    def dim(self) -> int:
        """The dimension of the space."""
        return len(self.regression.P)

    @classmethod
    def start(
        cls,
        settings: Settings,
        mapping: Map,
        sources: Sequence[Sums],
        pool: Array,
        K: int,
        weights: Sequence[Array],
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Constants and state: the prior from the sources' sums in the space, and the pool's first labels.

        `weights`: how much each head trusts each source; without sources there is one head all the same.
        """
        lengths = sum((source.octaves for source in sources), octaves(np.empty((0, 1))))
        settings = settings.at(usual_length(lengths))
        d = mapping(pool[:0]).shape[1]
        G, counts, sums = (
            [getattr(each, name) for each in sources] for name in ("gram", "counts", "totals")
        )
        tables = []
        priors = []
        for w in weights if G else ():
            table = class_targets(w, sums, counts) if settings.class_targets else np.eye(K)
            tables.append(table)
            priors.append(source_prior(G, sums, w, table, settings.lam, settings.trust))
        if not G:
            tables.append(np.eye(K))
            priors.append(np.zeros((d, K)))
        P = deviation_prior(G, d, settings.lam, settings.trust, settings.tau)
        M = np.hstack(priors)
        mapping, A = mapping.without_root()
        if A is not None:
            P = A @ P @ A.T
            M = A @ M
        constants = mapping.arrays() | {"prior.P": P, "prior.M": M}
        constants["widths"] = np.array([table.shape[1] for table in tables])
        if settings.class_targets:
            constants["targets"] = np.hstack(tables)
        if not settings.room:
            return constants, {}
        constants["counts"] = np.asarray(sum(counts, np.zeros(K)))
        return constants, _with_pool(settings, constants, mapping(pool), K)

    # -- rows ---------------------------------------------------------------------------------------------------

    def fade(self) -> None:
        """Old labels fade, and what the sources know stays; no row of the regression is pending."""
        self.regression.fade(self.settings.keep, self.constants["prior.P"], self._start())

    def _start(self) -> Array:
        """The prior's weights, with zeros for new classes."""
        M = self.constants["prior.M"]
        (table, widths) = self._base
        known = len(table) if table is not None else widths[0]
        return grown_columns(M, widths, self.targets.classes - known)

    def grow(self, extra: int, pending: int) -> dict[str, Array]:
        """The state with room for new classes: zero weights."""
        self.regression.own()
        arrays = self.arrays(pending) | (self.pool.grow(extra) if self.pool is not None else {})
        for name in ("M", "E"):
            if name in arrays:
                arrays[name] = grown_columns(arrays[name], self.targets.widths, extra)
        return arrays


def with_own(P: Array, M: Array, own: int) -> dict[str, Array]:
    """A prior with target-only columns: they start at zero weight, with a variance of their own."""
    d = len(P)
    wide = np.zeros((d + own, d + own))
    wide[:d, :d] = P
    wide[range(d, d + own), range(d, d + own)] = OWN_VARIANCE
    return {"prior.P": wide, "prior.M": np.vstack([M, np.zeros((own, M.shape[1]))])}


def _with_pool(
    settings: Settings, constants: dict[str, Array], U: Array, K: int
) -> dict[str, Array]:
    """The state of a pool labelled for the first time; the prior learns it."""
    regression = Regression(constants["prior.P"], constants["prior.M"])
    if len(U) > settings.room:
        U = U[np.linspace(0, len(U) - 1, settings.room).astype(int)]
    U = single(U[~regression.doubtful(U, 1 / settings.pool)])  # no outlier gets a label
    constants["prior.U"] = U
    state = Pool.empty(U, len(constants["widths"]), K)
    pool = Space(settings, constants, state, K).pool
    if not len(U) or pool is None:
        return state
    rows = U.astype(np.float64)
    state["labels"] = pool.label_first(rows @ regression.M)
    state["bias"] = pool.bias
    regression.update(rows, pool.targets.of_labels(state["labels"]), 1 / settings.pool)
    constants |= {"prior.P": regression.P, "prior.M": regression.M}
    state["leverage"] = np.asarray(settings.pool * regression.leverage(rows), np.float32)
    return state
