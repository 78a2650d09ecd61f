"""Preprocessing: steps as objects, over one NaN-aware running mean and variance of each column.

| step            | formula                                   | looks at                                             |
|-----------------|-------------------------------------------|------------------------------------------------------|
| `row-minmax`    | (x - min x) / (max x - min x)             | the instance                                         |
| `unit`          | x / |x|, a zero row stays zero            | the instance                                         |
| `signed-sqrt`   | sign(x) sqrt|x|                           | the instance                                         |
| `zscore`        | (x - mean) / sd, per feature              | the domain; on the stream: what was learned          |
| `centre`        | x - mean, per feature                     | the domain; on the stream: what was learned          |
| `scale`         | x / sd within the sources, per feature    | the sources, once                                    |
| `fill`          | gaps (NaN) become the mean of the feature | the domain; on the stream: what was learned          |
| `target-only-N` | (x - mean)/sd of the last N columns, which no other step sees | what was learned; internal       |
| `auto`          | `signed-sqrt`, `unit` of profiles without numbers below 0, else `scale` | the sources, once      |

A source is scaled by its own statistics. The target starts with those of its unlabelled rows; each learned instance is
folded in *after* it was used, so nothing looks ahead. Without unlabelled rows the average of the sources' statistics
stands in, with the weight of one instance.

Target-only columns are those that nothing can be transferred for: no source has them, or the target did not have them
yet. No other step sees them, so that what is transferred stays what it is.

`table` is no step on rows of numbers: it asks for the encoder of `hedgerow.tables`, which gives way to `fill`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.arrays import LARGEST, Array, Matrix, canonical, densified, is_sparse
from hedgerow.core.constants import SUM, Spec
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.source_rows import InMemory, Part, Smallest, SourceRows, Statistic, summed

CONSTANT = 1e-13  # a feature whose sd is below this share of its mean only varies by rounding
LARGEST_Z = 3.0  # standard deviations of a target-only column; of few values an sd is a guess
STATISTICS = ("n", "shift", "total", "squares")
MANY = 32  # columns from which on rows may be profiles, and beyond which they are taken for them
WIDEST_TABLE = 128
ONE_UNIT = 30.0  # between deviations of columns: beyond it they are of different units
WIDE = (
    64  # columns from which on rows are added one by one: sums along a column jump from row to row
)


@dataclass
class RunningStats:
    """Running mean and variance of each column: n, and sums of x - shift and (x - shift)^2 (the shift keeps digits).

    Without gaps n is one number for all columns. With `gaps` a NaN is a number that is missing, n counts column by
    column, and the first value of a column that was never there becomes its shift.

    >>> stats = RunningStats.of(np.array([[1.0, np.nan], [3.0, 5.0]]), gaps=True)
    >>> stats.mean.tolist(), stats.variance.tolist()
    ([2.0, 5.0], [1.0, 0.0])
    """

    n: Array
    shift: Array
    total: Array
    squares: Array
    gaps: bool = False

    @classmethod
    def of(cls, X: Array, gaps: bool = False) -> RunningStats:
        """The statistics of these rows, always in double precision; a column that is never there has the mean 0."""
        if not gaps:
            shift = X.mean(axis=0, dtype=np.float64)
            D = X - shift
            return cls(np.array([float(len(X))]), shift, D.sum(axis=0), (D * D).sum(axis=0))
        present = ~np.isnan(X)
        n = present.sum(axis=0).astype(np.float64)
        shift = np.where(present, X, 0.0).sum(axis=0, dtype=np.float64) / np.maximum(n, 1)
        D = np.where(present, X - shift, 0.0)
        return cls(n, shift, D.sum(axis=0), (D * D).sum(axis=0), gaps)

    @property
    def mean(self) -> Array:
        """Mean of each column so far."""
        return np.asarray(self.shift + self.total / np.maximum(self.n, 1))

    @property
    def variance(self) -> Array:
        """Variance of each column so far."""
        n = np.maximum(self.n, 1)
        return np.asarray(self.squares / n - (self.total / n) ** 2)

    def __add__(self, other: RunningStats) -> RunningStats:
        """The statistics of both sets of rows, about the mean of both (the parallel-axis rule keeps digits).

        >>> rows = np.array([[1.0], [3.0], [8.0]])
        >>> both = RunningStats.of(rows[:1]) + RunningStats.of(rows[1:])
        >>> both.shift.tolist(), both.squares.tolist()
        ([4.0], [26.0])
        """
        n = self.n + other.n
        some = np.maximum(n, 1)
        apart = other.mean - self.mean
        mean = self.mean + apart * (other.n / some)
        within = sum(part.squares - part.total**2 / np.maximum(part.n, 1) for part in (self, other))
        return RunningStats(
            n, mean, np.zeros_like(mean), within + apart**2 * (self.n * other.n / some), self.gaps
        )

    @classmethod
    def average(cls, parts: Sequence[RunningStats]) -> RunningStats:
        """One instance's worth of the average of several domains' statistics, of each column over those that have it.

        >>> parts = [RunningStats.of(np.array([[x]]), gaps=True) for x in (np.nan, 4.0)]
        >>> RunningStats.average(parts).mean.tolist()
        [4.0]
        """
        domains = np.maximum(sum(part.n > 0 for part in parts), 1)
        mean, variance = (
            np.asarray(sum(getattr(part, name) * (part.n > 0) for part in parts) / domains)
            for name in ("mean", "variance")
        )
        return cls(np.ones_like(parts[0].n), mean, np.zeros_like(mean), variance, parts[0].gaps)

    def completed(self, others: Sequence[RunningStats]) -> RunningStats:
        """With the average of the others, as one instance, for columns that are never there."""
        average = RunningStats.average([*others, self])
        pairs = ((getattr(average, name), getattr(self, name)) for name in STATISTICS)
        n, shift, total, squares = (np.where(self.n == 0, theirs, ours) for theirs, ours in pairs)
        return RunningStats(n, shift, total, squares, self.gaps)

    @classmethod
    def pooled(cls, parts: Sequence[RunningStats], present: Sequence[Array] = ()) -> RunningStats:
        """The pooled variance within the domains, about zero: for a scale that does not move.

        `present` says which columns each domain has; the others, filled by a constant, say nothing of a variance.
        """
        counts = [
            part.n[0] * has
            for part, has in zip(parts, present or [np.ones(1)] * len(parts), strict=True)
        ]
        within = sum(part.variance * n for part, n in zip(parts, counts, strict=True)) / np.maximum(
            sum(counts), 1
        )
        zero = np.zeros_like(parts[0].shift)
        return cls(np.ones(1), zero, zero.copy(), np.where(within > 0, within, 1.0))

    def each_row(
        self, X: Array, formula: Formula, learned: Array | None = None, spread: bool = True
    ) -> Array:
        """formula(x - shift, n, total, squares) of each row, by the statistics before it.

        With `learned` (a mask) each such row is folded in after it was used. `spread`: whether the formula looks at
        the squares.
        """
        if learned is None:
            return formula(X - self.shift, self.n, self.total, self.squares)
        if self.gaps and not self.n.all():
            kept = ~np.isnan(X) & learned[:, None]
            for j in np.flatnonzero((self.n == 0) & kept.any(axis=0)):
                self.shift[j] = X[kept[:, j].argmax(), j]
        D = X - self.shift
        if len(X) == 1:  # no running sums
            out = formula(D, self.n, self.total, self.squares)
            if learned[0]:
                d = D[0]
                if self.gaps:
                    present = ~np.isnan(d)
                    self.n += present
                    d = np.where(present, d, 0.0)
                else:
                    self.n += 1
                self.total += d
                self.squares += d * d
            return out
        kept = learned[:, None] & ~np.isnan(D) if self.gaps else learned[:, None]
        moves = D if kept.all() else np.where(kept, D, 0.0)
        n = _running_sums(self.n, kept)
        total = _running_sums(self.total, moves)
        squares = _running_sums(self.squares, moves * moves) if spread else self.squares[None]
        out = formula(D, n[:-1], total[:-1], squares[:-1])
        self.n[:], self.total[:] = n[-1], total[-1]
        self.squares[:] = (
            squares[-1] if spread else self.squares + np.einsum("ij,ij->j", moves, moves)
        )
        return out


Formula = Callable[[Array, Array, Array, Array], Array]  # of x - shift, n, total and squares


def _running_sums(first: Array, rows: Array) -> Array:
    """The sums before each row and after the last, by the same additions as one by one."""
    out = np.empty((len(rows) + 1, len(first)))
    out[0] = first
    if len(first) < WIDE:
        out[1:] = rows
        return np.asarray(np.add.accumulate(out, axis=0, out=out))
    for before, row, after in zip(out, rows, out[1:], strict=False):
        np.add(before, row, out=after)
    return out


@dataclass(frozen=True)
class Spread(Statistic[RunningStats]):
    """Mean and variance of each column; of sparse rows for a step (its name is for the error) that needs them dense."""

    gaps: bool = False
    step: str = field(default="zscore", compare=False)

    def of(self, part: Part) -> RunningStats:
        """Of some rows."""
        return RunningStats.of(densified(part.X, self.step), self.gaps)


def row_minmax(X: Matrix) -> Matrix:
    """(x - min x)/(max x - min x) for each row; a constant row becomes zero. Sparse rows must be non-negative.

    >>> row_minmax(np.array([[1.0, 3.0, 2.0]]))
    array([[0. , 1. , 0.5]])
    """
    if is_sparse(X):
        X = canonical(X)  # to find a minimum scipy would make it so in place
        low = X.min(axis=1).toarray().ravel()
        if (low < 0).any() or (np.diff(X.indptr) == X.shape[1]).any():
            return X.__class__(row_minmax(X.toarray()))
        return _scale_rows(X, X.max(axis=1).toarray().ravel())
    low = X.min(axis=1, keepdims=True)
    span = X.max(axis=1, keepdims=True) - low
    return (X - low) / np.where(span == 0, 1, span)


def unit(X: Matrix, out: Array | None = None) -> Matrix:
    """x/|x| for each row; a zero row stays zero. Dense rows of floats are written to `out`, if given: X itself, say.

    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    if is_sparse(X):
        X = canonical(X)
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        return _scale_rows(X, np.sqrt(np.bincount(row, X.data.astype(np.float64) ** 2, X.shape[0])))
    if X.ndim == 2 and len(X) == 1 and out is None:  # the usual step of a stream
        x = X[0]
        length = math.sqrt(np.vdot(x, x))
        if math.isnan(length):
            length = _norm_of_the_rest(X)[0, 0]
        return X / (length if length else 1)
    norm = np.sqrt(np.einsum("...i,...i->...", X, X))[..., None]
    if np.isnan(norm).any():
        norm = _norm_of_the_rest(X)
    return np.divide(
        X,
        np.where(norm == 0, 1, norm),
        out=out if out is not None and out.dtype.kind == "f" else None,
    )


def _norm_of_the_rest(X: Array) -> Array:
    """|x| of rows with gaps, as if these were as large as the other numbers of the row are on average.

    >>> _norm_of_the_rest(np.array([[3.0, np.nan], [3.0, 4.0]])).ravel().round(3).tolist()
    [4.243, 5.0]
    """
    there = (~np.isnan(X)).sum(axis=-1)
    return np.asarray(np.sqrt(np.nansum(X * X, axis=-1) * (X.shape[-1] / np.maximum(there, 1))))[
        ..., None
    ]


def signed_sqrt(X: Matrix) -> Matrix:
    """sign(x) sqrt|x|, entry by entry.

    >>> signed_sqrt(np.array([[4.0, -9.0]]))
    array([[ 2., -3.]])
    """
    if is_sparse(X):
        root = canonical(X).copy()
        root.data = np.sign(root.data) * np.sqrt(np.abs(root.data))
        return root
    return np.sign(X) * np.sqrt(np.abs(X))


def _scale_rows(X: Matrix, scale: Array) -> Matrix:
    data = X.data / np.repeat(np.where(scale == 0, 1, scale), np.diff(X.indptr)).astype(X.dtype)
    return X.__class__((data, X.indices.copy(), X.indptr.copy()), shape=X.shape)


INSTANCE_STEPS: dict[str, Callable[[Matrix], Matrix]] = {
    "row-minmax": row_minmax,
    "unit": unit,
    "signed-sqrt": signed_sqrt,
}


class Step:
    """A step: `fit` on the domains, then `apply` to rows of the target.

    This class itself is a step that looks at one instance; those that look at a domain derive from it.
    """

    fixed: ClassVar[bool] = True  # whether nothing moves after `fit`
    stats: RunningStats | None = None
    present: Sequence[Array] = ()  # which columns each source has, where gaps were filled

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def number(self) -> str:
        """The name by which compiled loops number it, see NUMBERS."""
        return self.name

    def fit(self, sources: Sequence[SourceRows], warmup: Matrix) -> tuple[list[SourceRows], Matrix]:
        """Sources and warm-up rows behind this step; what it needs to know of the target is kept."""
        return [source.through(self.apply) for source in sources], self.apply(
            warmup
        ) if warmup.shape[0] else warmup

    def apply(self, X: Matrix, learned: Array | None = None) -> Matrix:
        """Rows by the statistics so far; in order with `learned`, a mask of rows to fold in after they were used."""
        return INSTANCE_STEPS[self.name](X)

    def arrays(self) -> dict[str, Array]:
        """What the step knows, as named arrays (the arrays themselves)."""
        return (
            {} if self.stats is None else {name: getattr(self.stats, name) for name in STATISTICS}
        )

    def load(self, arrays: Mapping[str, Array]) -> None:
        """The inverse of `arrays`."""

    def spec(self, m: int | str) -> dict[str, Spec]:
        """Shape, type and range of these arrays, where rows have m columns."""
        return {}


class DomainStep(Step):
    """A step by the running statistics of a domain; sparse rows become dense.

    >>> step = Centre("centre")
    >>> sources, warmup = step.fit([InMemory(np.array([[1.0], [3.0]]))], np.array([[5.0], [9.0]]))
    >>> sources[0].gathered().ravel().tolist(), warmup.ravel().tolist(), step.apply(np.array([[8.0]])).tolist()
    ([-1.0, 1.0], [-2.0, 2.0], [[1.0]])
    """

    fixed = False
    gaps: ClassVar[bool] = False
    spread: ClassVar[bool] = True  # whether the formula looks at the variance
    stats: RunningStats

    def fit(self, sources: Sequence[SourceRows], warmup: Matrix) -> tuple[list[SourceRows], Matrix]:
        """Each domain by its own statistics."""
        warmup = densified(warmup, self.name)
        by_source = summed(sources, Spread(self.gaps, self.name))
        self.stats, by_source = self._learn(by_source, warmup)
        behind = [
            source.through(self._with(stats).apply)
            for source, stats in zip(sources, by_source, strict=True)
        ]
        return behind, self.apply(warmup)

    def _learn(
        self, sources: list[RunningStats], warmup: Array
    ) -> tuple[RunningStats, list[RunningStats]]:
        """The statistics of the target, and those by which each source is scaled."""
        if len(warmup) or not sources:
            return RunningStats.of(
                warmup if len(warmup) else np.zeros((1, warmup.shape[1]))
            ), sources
        return RunningStats.average(sources), sources

    def _with(self, stats: RunningStats) -> DomainStep:
        """The same step by other statistics."""
        other = type(self)(self.name)
        other.stats = stats
        return other

    def apply(self, X: Matrix, learned: Array | None = None) -> Array:
        """Each row by the statistics before it."""
        X = densified(X, self.name)
        return np.asarray(self.stats.each_row(X, self.formula, learned, self.spread), dtype=X.dtype)

    def formula(self, D: Array, n: Array, total: Array, squares: Array) -> Array:
        """What becomes of D = x - shift by these statistics."""
        raise NotImplementedError

    def load(self, arrays: Mapping[str, Array]) -> None:
        """The inverse of `arrays`."""
        n, shift, total, squares = (arrays[name] for name in STATISTICS)
        self.stats = RunningStats(n, shift, total, squares, self.gaps)

    def spec(self, m: int | str) -> dict[str, Spec]:
        """Shape, type and range of the statistics."""
        sums = Spec((m,), low=-SUM, high=SUM)
        n = Spec((m,), low=0) if self.gaps else Spec((1,), low=np.finfo(float).tiny)
        return {"n": n, "shift": sums, "total": sums, "squares": Spec((m,), low=0)}


class Centre(DomainStep):
    """x - mean."""

    spread = False

    def formula(self, D: Array, n: Array, total: Array, squares: Array) -> Array:
        """D less its mean."""
        return np.asarray(D - total / n)


class ZScore(DomainStep):
    """(x - mean)/sd; a column that only varies by rounding is not divided."""

    def formula(self, D: Array, n: Array, total: Array, squares: Array) -> Array:
        """D less its mean, over its sd."""
        mean = total / n
        variance = squares / n
        out = D - mean
        variance -= mean * mean
        out /= _divisor(variance, self.stats.shift)
        return out


def _divisor(variance: Array, mean: Array) -> Array:
    """The sd, in place of the variance; one where a column only varies by rounding."""
    np.putmask(variance, variance <= (CONSTANT * mean) ** 2, 1)
    return np.asarray(np.sqrt(variance, out=variance))


class Scale(DomainStep):
    """x/sd, where the variance is that within the sources, pooled: it never moves."""

    fixed = True
    _sd: Array | None = None

    def _learn(
        self, sources: list[RunningStats], warmup: Array
    ) -> tuple[RunningStats, list[RunningStats]]:
        stats = RunningStats.pooled(sources or [super()._learn(sources, warmup)[0]], self.present)
        return stats, [stats] * len(sources)

    def apply(self, X: Matrix, learned: Array | None = None) -> Array:
        """Every row by the same scale."""
        X = densified(X, self.name)
        if self._sd is None:
            self._sd = _divisor(self.stats.variance, self.stats.shift)
        largest = LARGEST[X.dtype]  # of a column that hardly varies in the sources
        with np.errstate(over="ignore"):
            return np.asarray(np.clip(X / self._sd, -largest, largest), dtype=X.dtype)


class Fill(DomainStep):
    """A gap (NaN) becomes the mean of its column in its domain, never of a row to come.

    A column that a domain does not have at all takes the average of the means of the domains that have it, with the
    weight of one instance; behind `centre` both are zero.

    >>> step = Fill("fill")
    >>> sources, warmup = step.fit([InMemory(np.array([[1.0, 4.0]]))], np.array([[3.0, np.nan]]))
    >>> warmup.tolist(), step.apply(np.array([[np.nan, np.nan]])).tolist()
    ([[3.0, 4.0]], [[3.0, 4.0]])
    """

    gaps = True
    spread = False

    def _learn(
        self, sources: list[RunningStats], warmup: Array
    ) -> tuple[RunningStats, list[RunningStats]]:
        target = RunningStats.of(warmup, gaps=True)
        self.present = [stats.n > 0 for stats in sources]
        return target.completed(sources), [stats.completed([*sources, target]) for stats in sources]

    def apply(self, X: Matrix, learned: Array | None = None) -> Array:
        """Each row by the means before it."""
        X = densified(X, self.name)
        gaps = np.isnan(X)
        if learned is None and not gaps.any():
            return np.asarray(X)
        means = self.stats.each_row(X, self.formula, learned, self.spread)
        return np.where(gaps, means, X).astype(X.dtype, copy=False)

    def formula(self, D: Array, n: Array, total: Array, squares: Array) -> Array:
        """The means."""
        return np.asarray(self.stats.shift + total / n)


class TargetOnly(DomainStep):
    """z = (x - mean)/sd of columns that no source has, at most `LARGEST_Z` from zero.

    A gap is zero, and so is the first value: of one value the variance is not known. So is a column that only varies
    by rounding.
    """

    gaps = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.width = target_only_width([name])

    @property
    def number(self) -> str:
        """Without its width."""
        return "target-only"

    def fit(self, sources: Sequence[SourceRows], warmup: Matrix) -> tuple[list[SourceRows], Matrix]:
        """Of the warm-up rows; a source says nothing of these columns."""
        self.stats = RunningStats.of(warmup, gaps=True)
        return list(sources), self.apply(warmup)

    def formula(self, D: Array, n: Array, total: Array, squares: Array) -> Array:
        """The z-score, where there is one."""
        n = np.maximum(n, 1)
        mean = total / n
        sd = np.sqrt(np.maximum(squares / n - mean**2, 0))
        varies = sd > CONSTANT * np.abs(self.stats.shift)
        z = np.divide(D - mean, sd, where=~np.isnan(D) & varies, out=np.zeros_like(D))
        return np.clip(z, -LARGEST_Z, LARGEST_Z)

    def spec(self, m: int | str) -> dict[str, Spec]:
        """Of so many columns as the name says."""
        return super().spec(self.width)


AUTO = "auto"
TABLE = "table"
FILL = "fill"
SCALE = "scale"
UNIT = "unit"
DOMAIN_STEPS: dict[str, type[DomainStep]] = {
    "zscore": ZScore,
    "centre": Centre,
    SCALE: Scale,
    FILL: Fill,
}
ACCEPTED = (
    *INSTANCE_STEPS,
    *(name for name in DOMAIN_STEPS if name != FILL),
    AUTO,
    TABLE,
)  # from users
NUMBERS = (
    "centre",
    "zscore",
    FILL,
    "target-only",
    SCALE,
    UNIT,
    "signed-sqrt",
    "row-minmax",
)  # as `kernels/rows.py` has it
_TARGET_ONLY = re.compile(r"target-only-([1-9]\d{0,5})")


def target_only_width(steps: Sequence[str]) -> int:
    """How many columns, the last ones, no source has.

    >>> target_only_width(("target-only-3", "fill")), target_only_width(("centre",))
    (3, 0)
    """
    match = _TARGET_ONLY.fullmatch(steps[0]) if steps else None
    return int(match[1]) if match else 0


def parse(steps: str | Sequence[str] | None, internal: bool = False) -> tuple[str, ...]:
    """The steps as a tuple of known names; one string may join several with '+'.

    Those that come with a table, `fill` and (first of all) `target-only-N`, are `internal`: not accepted from users.

    >>> parse("signed-sqrt+unit")
    ('signed-sqrt', 'unit')
    >>> parse("centre+fill")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    hedgerow.core.errors.InputError: preprocess: 'fill' comes with a table; write 'table' in its place (known: row-...
    """
    names = (
        () if steps is None else tuple(steps.split("+")) if isinstance(steps, str) else tuple(steps)
    )
    names = tuple(str(name).strip() for name in names if str(name).strip() not in ("", "none"))
    for i, name in enumerate(names):
        width = target_only_width([name])
        if (name == FILL or width) and not (internal and (i == 0 or not width)):
            known = ", ".join(ACCEPTED)
            raise InputError(
                f"preprocess: {name!r} comes with a table; write 'table' in its place (known: {known})"
            )
        if name not in ACCEPTED and name != FILL and not width:
            raise unknown("preprocessing step", name, ACCEPTED)
    return names


def profiles(sources: Sequence[SourceRows]) -> bool:
    """Whether rows are profiles (counts, pixels, spectra): many columns of one unit, whose deviations are alike.

    >>> rows = np.random.default_rng(0).normal(size=(20, 64))
    >>> [profiles([InMemory(each)]) for each in (rows, rows[:, :4], rows * np.logspace(0, 6, 64))]
    [True, False, False]
    """
    width = sources[0].width
    if width < MANY or width > WIDEST_TABLE:
        return width > WIDEST_TABLE
    sd = np.sqrt(np.maximum(RunningStats.pooled(summed(sources, Spread(gaps=True))).variance, 0))
    sd = sd[sd > 0]
    return not len(sd) or bool(np.quantile(sd, 0.9) <= ONE_UNIT * np.quantile(sd, 0.25))


def chosen(
    steps: tuple[str, ...], sources: Sequence[SourceRows], warmup: Matrix
) -> tuple[str, ...]:
    """The steps with `auto` replaced by what fits the data: square roots for profiles without negative values.

    >>> rows = np.random.default_rng(0).uniform(size=(20, 64))
    >>> [chosen(("auto", "centre"), [InMemory(each)], rows[:0]) for each in (rows, rows - 1, rows[:, :4])]
    [('signed-sqrt', 'unit', 'centre'), ('scale', 'centre'), ('scale', 'centre')]
    """
    if AUTO in steps:
        unlike = bool(sources) and not profiles(sources)
        scaled = unlike or min([*summed(sources, Smallest()), Smallest().of(Part(warmup))]) < 0
        auto = (SCALE,) if scaled else ("signed-sqrt", UNIT)
        steps = tuple(name for step in steps for name in (auto if step == AUTO else (step,)))
    return _filled_in_time(steps)


def _filled_in_time(steps: tuple[str, ...]) -> tuple[str, ...]:
    """The step `fill` before the first that cannot have gaps: better a mean of numbers that are scaled already.

    >>> _filled_in_time(("fill", "signed-sqrt", "unit", "centre")), _filled_in_time(("fill", "scale"))
    (('signed-sqrt', 'unit', 'fill', 'centre'), ('fill', 'scale'))
    """
    if FILL not in steps:
        return steps
    first = steps[:1] if target_only_width(steps) else ()
    rest = [step for step in steps if step != FILL]
    rest = rest[len(first) :]
    able = next((i for i, step in enumerate(rest) if step not in ("signed-sqrt", UNIT)), len(rest))
    able = 0 if "row-minmax" in rest else able
    return (*first, *rest[:able], FILL, *rest[able:])


class Preprocess:
    """A composition of steps for the sources (each by its own statistics) and for the target (running statistics).

    >>> pre = Preprocess(("centre", "unit"))
    >>> rows = InMemory(np.array([[1.0, 2.0], [3.0, 2.0]]))
    >>> sources, warmup = pre.fit([rows], np.array([[4.0, 0.0], [6.0, 0.0]]))
    >>> sources[0].gathered().tolist(), warmup.tolist()
    ([[-1.0, 0.0], [1.0, 0.0]], [[-1.0, 0.0], [1.0, 0.0]])
    >>> pre.apply(np.array([[9.0, 0.0]]))
    array([[1., 0.]])
    """

    reference: Array | None = (
        None  # the mean row of the sources as they came, where they are in memory
    )

    def __init__(self, steps: str | Sequence[str] | None) -> None:
        self._make(parse(steps, internal=True))

    def _make(self, names: tuple[str, ...]) -> None:
        """The steps by name; `auto` waits for `fit`."""
        self.steps = names
        self.target_only = TargetOnly(names[0]) if target_only_width(names) else None
        shared = names[1:] if self.target_only else names
        self.shared = [DOMAIN_STEPS.get(name, Step)(name) for name in shared]
        self.all: list[Step] = [*([self.target_only] if self.target_only else []), *self.shared]

    def fit(self, sources: Sequence[SourceRows], warmup: Matrix) -> tuple[list[SourceRows], Matrix]:
        """Sources and warm-up rows behind all steps; what is known of the target is kept for `apply` and `fold`."""
        self.reference, own = _mean_row(sources), target_only_width(self.steps)
        if not own:
            return self._fit_shared(sources, warmup)
        width = warmup.shape[1] - own
        shared, U = self._fit_shared(
            [source.through(First(width)) for source in sources], warmup[:, :width]
        )
        assert self.target_only is not None
        _, z = self.target_only.fit([], warmup[:, width:])
        return [source.through(Padded(own)) for source in shared], np.hstack(
            [U, self.length(width) * z]
        )

    def _fit_shared(
        self, sources: Sequence[SourceRows], warmup: Matrix
    ) -> tuple[list[SourceRows], Matrix]:
        self._make(chosen(self.steps, sources, warmup))
        rows = list(sources)
        present = Step.present
        for step in self.shared:
            step.present = present
            rows, warmup = step.fit(rows, warmup)
            present = step.present
        return rows, warmup

    def apply(self, X: Matrix) -> Matrix:
        """Target rows by the statistics so far; nothing is remembered."""
        return self.through(X, lambda step, rows: step.apply(rows))

    def fold(self, X: Matrix, learned: Array) -> Matrix:
        """Target rows in order, each by the statistics before it; the learned ones are folded in."""
        return self.through(X, lambda step, rows: step.apply(rows, learned))

    def through(self, X: Matrix, run: Callable[[Step, Matrix], Matrix]) -> Matrix:
        """Rows behind all steps, each taken by `run`: `apply`, `fold`, or those of many targets at once."""
        if self.target_only is None:
            for step in self.shared:
                X = run(step, X)
            return X
        width = X.shape[1] - self.target_only.width
        z = self.length(width) * run(self.target_only, X[:, width:])
        shared = np.ascontiguousarray(X[:, :width])
        for step in self.shared:
            shared = run(step, shared)
        return np.hstack([shared, z.astype(X.dtype)])

    def length(self, width: int) -> float:
        """How long a target-only column is: as one of the other columns, if rows end as unit vectors."""
        return 1 / np.sqrt(width) if self.steps[-1:] == (UNIT,) else 1.0

    def numbered(self, width: int) -> tuple[Array, Array, dict[str, Array]]:
        """The steps on rows of so many columns as compiled loops take them (`kernels/rows.py`).

        A row of whole numbers for each; what never changes; and by name what does, in the order of its places.
        """
        own = self.target_only.width if self.target_only else 0
        table = []
        shared = [np.empty(0)]
        running: dict[str, Array] = {}
        for i, step in enumerate(self.all):
            at = [sum(map(len, each)) for each in (running.values(), shared)]
            columns = (width - own, own) if step is self.target_only else (0, width - own)
            table.append([NUMBERS.index(step.number), *columns, *at])
            if isinstance(step, Scale):
                shared.append(_divisor(step.stats.variance, step.stats.shift))
            elif isinstance(step, DomainStep):
                names = ["n", "total", "squares"]
                if step is self.target_only:
                    names.append("shift")
                else:
                    shared.append(step.stats.shift)
                running |= {f"pre.{i}.{name}": getattr(step.stats, name) for name in names}
        return np.array(table, np.int64).reshape(-1, 5), np.concatenate(shared), running

    def follow(self, running: Mapping[str, Array]) -> None:
        """Go on with these arrays in the place of those that `numbered` gave, by name."""
        for name, array in running.items():
            _, i, field_name = name.split(".")
            setattr(self.all[int(i)].stats, field_name, array)

    def arrays(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """The statistics as named arrays (the arrays themselves): those that never change, and those that do."""
        fixed, running = _sides(self.all, lambda step: step.arrays())
        return fixed if self.reference is None else fixed | {"reference": self.reference}, running

    def spec(self) -> tuple[dict[str, Spec], dict[str, Spec]]:
        """Shape, type and range of these arrays; m columns, s of them shared where some are target-only."""
        m = "s" if self.target_only else "m"
        fixed, running = _sides(self.all, lambda step: step.spec(m))
        return fixed | {"reference": Spec(("m",), needed=False)}, running

    @classmethod
    def of_arrays(cls, steps: Sequence[str], arrays: Mapping[str, Array]) -> Preprocess:
        """The inverse of `arrays`."""
        made = cls(steps)
        for i, step in enumerate(made.all):
            step.load(
                {
                    name: arrays[f"pre.{i}.{name}"]
                    for name in STATISTICS
                    if f"pre.{i}.{name}" in arrays
                }
            )
        return made


def _sides(
    steps: Sequence[Step], what: Callable[[Step], dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Something by name of each step: of those that never change, and of those that do."""
    fixed: dict[str, Any] = {}
    running: dict[str, Any] = {}
    for i, step in enumerate(steps):
        side = fixed if step.fixed else running
        side |= {f"pre.{i}.{name}": value for name, value in what(step).items()}
    return fixed, running


def _mean_row(sources: Sequence[SourceRows]) -> Array | None:
    """The mean row of all sources, each of the same weight, a gap counting for nothing; None if one is elsewhere."""
    rows = [source.X for source in sources if isinstance(source, InMemory)]
    if not rows or len(rows) < len(sources):
        return None
    means = [
        np.asarray(X.mean(axis=0)).ravel() if is_sparse(X) else RunningStats.of(X, gaps=True).mean
        for X in rows
    ]
    return np.asarray(np.mean(means, axis=0, dtype=np.float64))


@dataclass(frozen=True)
class First:
    """The first columns of a row: those that are transferred."""

    width: int

    def __call__(self, X: Matrix) -> Matrix:
        """These."""
        return np.ascontiguousarray(X[:, : self.width])


@dataclass(frozen=True)
class Padded:
    """Rows of a source with zeros for the target-only columns, of which it says nothing."""

    width: int

    def __call__(self, X: Matrix) -> Matrix:
        """With zeros."""
        return np.hstack([X, np.zeros((len(X), self.width), X.dtype)])
