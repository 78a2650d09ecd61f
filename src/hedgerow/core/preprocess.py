"""Preprocessing as named steps that compose: some look at one instance, some at the statistics of its domain.

| step          | formula                                   | looks at                                        |
|---------------|-------------------------------------------|-------------------------------------------------|
| `row-minmax`  | (x - min x) / (max x - min x)             | the instance                                    |
| `unit`        | x / |x|, a zero row stays zero            | the instance                                    |
| `signed-sqrt` | sign(x) sqrt|x|                           | the instance                                    |
| `zscore`      | (x - mean) / sd, per feature              | the domain; on the stream: what was learned     |
| `centre`      | x - mean, per feature                     | the domain; on the stream: what was learned     |
| `scale`       | x / sd within the sources, per feature    | the sources, once                               |
| `fill`        | gaps (NaN) become the mean of the feature | the domain; on the stream: what was learned     |
| `own-N`       | (x - mean)/sd of the last N columns, which no other step sees | what was learned |
| `auto`        | `signed-sqrt`, `unit` if nothing is below 0, else `scale` | the sources, once               |

A source is scaled by its own statistics. The target starts with those of its unlabelled rows; each learned instance is
folded in *after* it was used, so nothing looks ahead. Without unlabelled rows the average of the sources' statistics
stands in, with the weight of one instance.

`table` is no step on rows of numbers: it asks for the encoder of `hedgerow.tables`, which gives way to `fill`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hedgerow.core.arrays import Array, Matrix, canonical, densified, is_sparse
from hedgerow.core.errors import unknown
from hedgerow.core.source_rows import InMemory, Part, Smallest, SourceRows, Statistic, summed

CONSTANT = 1e-13  # a feature whose sd is below this share of its mean only varies by rounding


@dataclass
class Running:
    """Running mean and variance of a domain: n, and sums of x - shift and (x - shift)^2 (the shift keeps digits)."""

    n: Array
    shift: Array
    total: Array
    squares: Array

    @classmethod
    def of(cls, X: Array) -> Running:
        """The statistics of these rows, always in double precision."""
        shift = X.mean(axis=0, dtype=np.float64)
        D = X - shift
        return cls(np.array([float(len(X))]), shift, D.sum(axis=0), (D * D).sum(axis=0))

    def merge(self, other: Running) -> Running:
        """The statistics of both sets of rows, about the mean of both (the parallel-axis rule keeps digits).

        >>> rows = np.array([[1.0], [3.0], [8.0]])
        >>> both = Running.of(rows[:1]).merge(Running.of(rows[1:]))
        >>> both.shift.tolist(), both.squares.tolist()
        ([4.0], [26.0])
        """
        if not self.n[0] or not other.n[0]:
            return self if self.n[0] else other
        n = self.n + other.n
        a, b = (part.shift + part.total / part.n for part in (self, other))
        mean = a + (b - a) * (other.n / n)
        within = sum(part.squares - part.total**2 / part.n for part in (self, other))
        return Running(n, mean, np.zeros_like(mean), within + (b - a) ** 2 * (self.n * other.n / n))

    @classmethod
    def average(cls, parts: Sequence[Running]) -> Running:
        """One instance's worth of the average of several domains' statistics."""
        mean = np.mean([p.shift + p.total / p.n for p in parts], axis=0)
        variance = np.mean([p.variance for p in parts], axis=0)
        return cls(np.ones(1), mean, np.zeros_like(mean), variance)

    @classmethod
    def frozen(cls, parts: Sequence[Running], there: Sequence[Array] | None = None) -> Running:
        """The pooled variance within the domains, about zero: for a scale that does not move.

        `there` says which features each domain has; the others, filled by a constant, say nothing of a variance.
        """
        if there is None:
            n: float | Array = sum(float(p.n[0]) for p in parts)
            within = sum(p.variance * p.n[0] for p in parts) / n
        else:
            n = np.maximum(sum(p.n[0] * has for p, has in zip(parts, there, strict=True)), 1.0)
            within = sum(p.variance * p.n[0] * has for p, has in zip(parts, there, strict=True)) / n
        zero = np.zeros_like(parts[0].shift)
        return cls(np.ones(1), zero, zero.copy(), np.where(within > 0, within, 1.0))

    @property
    def variance(self) -> Array:
        """Variance of each feature so far."""
        return np.asarray(self.squares / self.n - (self.total / self.n) ** 2)

    def scale(self, X: Array, step: str, learned: Array | None = None) -> Array:
        """X scaled row by row; with `learned` (a mask) each such row is folded in after it was scaled."""
        D = X - self.shift
        if learned is not None and len(X) == 1:  # no running sums
            out = self.scale(X, step)
            if learned[0]:
                self.n[0] += 1
                self.total += D[0]
                self.squares += D[0] * D[0]
            return out
        if learned is None:
            n, total, squares = self.n[:, None], self.total[None], self.squares[None]
        else:
            n, total, squares = self._before_each_row(D, learned)
        out = D - total / n
        if step != "centre":
            sd = np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0))
            out /= np.where(sd <= CONSTANT * np.abs(self.shift), 1, sd)
        return np.asarray(out, dtype=X.dtype)

    def _before_each_row(self, D: Array, learned: Array) -> tuple[Array, Array, Array]:
        """Statistics before each row, by running sums (the same additions, in the same order, as one by one)."""
        kept = learned[:, None] * D
        n = self.n[0] + np.concatenate([[0], np.cumsum(learned)])[:, None]
        total = np.cumsum(np.vstack([self.total, kept]), axis=0)
        squares = np.cumsum(np.vstack([self.squares, kept * D]), axis=0)
        self.n[0], self.total[:], self.squares[:] = n[-1, 0], total[-1], squares[-1]
        return n[:-1], total[:-1], squares[:-1]


@dataclass(frozen=True)
class Spread(Statistic[Running]):
    """Mean and variance of each feature."""

    def of(self, part: Part) -> Running:
        """Of some rows."""
        return Running.of(part.X)

    def merge(self, a: Running, b: Running) -> Running:
        """Of both."""
        return a.merge(b)


@dataclass(frozen=True)
class Scaled:
    """A step that looks at a domain, with what it saw there; sparse rows become dense."""

    step: str
    by: Running

    def __call__(self, X: Matrix) -> Array:
        """Rows scaled by these statistics, which stay as they are."""
        return self.by.scale(densified(X, self.step), self.step)


@dataclass(frozen=True)
class Densified:
    """Rows as a step needs them. `changes_nothing`: rows that are not sparse stay as they are."""

    step: str
    changes_nothing: ClassVar[bool] = True

    def __call__(self, X: Matrix) -> Array:
        """Dense, if that can be afforded."""
        return densified(X, self.step)


# Columns that nothing can be transferred for: beside the others, each by its own running mean and variance.
#
# Nobody in the sources has them, or the target did not have them yet. They are the last columns of a row, the step
# `own-N` of the preprocessing takes N of them apart; no other step sees them, so that what is transferred stays what it
# is. A gap is zero, and so is the first value: of one value the variance is not known.
#
#     z = (x - mean)/sd, at most LARGEST from zero; over sqrt m where the m other columns end as rows of unit length
OWN = re.compile(r"own-([1-9]\d{0,5})")
LARGEST = 3.0  # standard deviations; of few values an sd is a guess


def own_width(steps: Sequence[str]) -> int:
    """How many columns stand beside the others.

    >>> own_width(("own-3", "fill")), own_width(("centre",))
    (3, 0)
    """
    found = OWN.fullmatch(steps[0]) if steps else None
    return int(found[1]) if found else 0


@dataclass
class Beside:
    """How often each column was there, and sums of x - shift and its square; the shift is the first value."""

    n: Array
    shift: Array
    total: Array
    squares: Array

    @classmethod
    def of(cls, X: Array) -> Beside:
        """Of these rows, of which there may be none."""
        m = X.shape[1]
        made = cls(np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m))
        made.standard(X, np.ones(len(X), bool))
        return made

    def standard(self, X: Array, learned: Array | None = None) -> Array:
        """Rows by the statistics before each; with `learned` (a mask) such rows are folded in after they were used."""
        there = ~np.isnan(X)
        if learned is None:
            return self._scaled(np.where(there, X - self.shift, 0.0), there, self.n, self.total, self.squares)
        kept = there & learned[:, None]
        self._begin(X, kept)
        D = np.where(there, X - self.shift, 0.0)
        # the same additions, in the same order, as one by one
        n = np.cumsum(np.vstack([self.n, kept]), axis=0)
        total = np.cumsum(np.vstack([self.total, kept * D]), axis=0)
        squares = np.cumsum(np.vstack([self.squares, kept * D * D]), axis=0)
        self.n[:], self.total[:], self.squares[:] = n[-1], total[-1], squares[-1]
        return self._scaled(D, there, n[:-1], total[:-1], squares[:-1])

    def add_each(self, X: Array, learned: Array) -> None:
        """Fold in a row for each row of statistics (all have as many as X): of as many domains."""
        kept = ~np.isnan(X) & learned[:, None]
        self.shift = np.where((self.n == 0) & kept, X, self.shift)
        D = np.where(kept, X - self.shift, 0.0)
        self.n += kept
        self.total += D
        self.squares += D * D

    def _begin(self, X: Array, kept: Array) -> None:
        """The first value of a column is its shift."""
        for j in np.flatnonzero((self.n == 0) & kept.any(axis=0)):
            self.shift[j] = X[kept[:, j].argmax(), j]

    @staticmethod
    def _scaled(D: Array, there: Array, n: Array, total: Array, squares: Array) -> Array:
        mean = total / np.maximum(n, 1)
        sd = np.sqrt(np.maximum(squares / np.maximum(n, 1) - mean**2, 0))
        known = there & (sd > 0)
        z = np.divide(D - mean, np.where(sd > 0, sd, 1.0), where=known, out=np.zeros_like(D))
        return np.clip(z, -LARGEST, LARGEST)


@dataclass(frozen=True)
class Shared:
    """The step of a source: the columns that are transferred."""

    width: int

    def __call__(self, X: Matrix) -> Matrix:
        """The first ones."""
        return np.ascontiguousarray(X[:, : self.width])


@dataclass(frozen=True)
class Padded:
    """The step of a source after all others: its rows say nothing of the columns beside."""

    own: int

    def __call__(self, X: Matrix) -> Matrix:
        """With zeros."""
        return np.hstack([X, np.zeros((len(X), self.own), X.dtype)])


# Gaps in rows: the mean that stands for a missing number, which follows its domain.
#
# A gap is NaN. A source's gaps are filled by the source's own means; those of the target by the means of its
# unlabelled rows and of what it has learned so far, never of a row to come. A column that a domain does not have at
# all takes the average of the means of the domains that have it, with the weight of one instance; behind `centre`
# both are zero.
@dataclass
class Means:
    """How often each feature was there, and the sum of x - shift over these times (the shift keeps digits)."""

    n: Array
    shift: Array
    total: Array

    @classmethod
    def of(cls, X: Array) -> Means:
        """Of these rows; a feature that is never there has n = 0 and the mean 0."""
        there = ~np.isnan(X)
        n = there.sum(axis=0).astype(np.float64)
        shift = np.where(there, X, 0.0).sum(axis=0, dtype=np.float64) / np.maximum(n, 1)
        return cls(n, shift, np.where(there, X - shift, 0.0).sum(axis=0))

    @property
    def mean(self) -> Array:
        """Of each feature so far."""
        return np.asarray(self.shift + self.total / np.maximum(self.n, 1))

    def merge(self, other: Means) -> Means:
        """The means of both sets of rows.

        >>> a, b = Means.of(np.array([[1.0, np.nan]])), Means.of(np.array([[3.0, 5.0]]))
        >>> a.merge(b).mean.tolist()
        [2.0, 5.0]
        """
        n = self.n + other.n
        mean = (self.mean * self.n + other.mean * other.n) / np.maximum(n, 1)
        return Means(n, mean, np.zeros_like(mean))

    def completed(self, others: Sequence[Means]) -> Means:
        """With the average mean of the others, as one instance, for features that are never there.

        >>> Means.of(np.array([[np.nan]])).completed([Means.of(np.array([[4.0]]))]).mean.tolist()
        [4.0]
        """
        known = sum((other.n > 0).astype(np.float64) for other in others) if others else np.zeros_like(self.n)
        total = sum((other.mean * (other.n > 0) for other in others), np.zeros_like(self.n))
        never = self.n == 0
        average = np.where(known > 0, total / np.maximum(known, 1), 0.0)
        return Means(np.where(never, 1.0, self.n), np.where(never, average, self.shift), np.where(never, 0, self.total))

    def fill(self, X: Array, learned: Array | None = None) -> Array:
        """X without gaps; with `learned` (a mask) each such row is folded in after its own gaps were filled."""
        gaps = np.isnan(X)
        D = np.where(gaps, 0.0, X - self.shift)
        if learned is None:
            return np.where(gaps, self.mean, X).astype(X.dtype) if gaps.any() else X
        kept = ~gaps & learned[:, None]
        # the same additions, in the same order, as one by one
        n = np.cumsum(np.vstack([self.n, kept]), axis=0)
        total = np.cumsum(np.vstack([self.total, np.where(kept, D, 0.0)]), axis=0)
        self.n[:], self.total[:] = n[-1], total[-1]
        if not gaps.any():
            return X
        return np.where(gaps, self.shift + total[:-1] / np.maximum(n[:-1], 1), X).astype(X.dtype)

    def add_each(self, X: Array, learned: Array) -> None:
        """Fold in a row for each row of means (`n` and `total` have as many as X): of as many domains."""
        kept = ~np.isnan(X) & learned[:, None]
        self.n += kept
        self.total += np.where(kept, X - self.shift, 0.0)


@dataclass(frozen=True)
class Present(Statistic[Means]):
    """How often each feature is there, and its mean."""

    def of(self, part: Part) -> Means:
        """Of some rows."""
        return Means.of(part.X)

    def merge(self, a: Means, b: Means) -> Means:
        """Of both."""
        return a.merge(b)


@dataclass(frozen=True)
class Filled:
    """The step of a source: its gaps become these means."""

    by: Means

    def __call__(self, X: Array) -> Array:
        """Rows without gaps."""
        return self.by.fill(X)


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
        length = np.sqrt(np.einsum("i,i->", X[0], X[0]))
        if np.isnan(length):
            length = _norm_of_the_rest(X)[0, 0]
        return X / (length if length else 1)
    norm = np.sqrt(np.einsum("...i,...i->...", X, X))[..., None]
    if np.isnan(norm).any():
        norm = _norm_of_the_rest(X)
    return np.divide(X, np.where(norm == 0, 1, norm), out=out if out is not None and out.dtype.kind == "f" else None)


def _norm_of_the_rest(X: Array) -> Array:
    """|x| of rows with gaps, as if these were as large as the other numbers of the row are on average.

    >>> _norm_of_the_rest(np.array([[3.0, np.nan], [3.0, 4.0]])).ravel().round(3).tolist()
    [4.243, 5.0]
    """
    there = (~np.isnan(X)).sum(axis=-1)
    return np.asarray(np.sqrt(np.nansum(X * X, axis=-1) * (X.shape[-1] / np.maximum(there, 1))))[..., None]


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


INSTANCE_STEPS = {"row-minmax": row_minmax, "unit": unit, "signed-sqrt": signed_sqrt}
DOMAIN_STEPS = ("zscore", "centre", "scale")
AUTO = "auto"
FILL = "fill"
TABLE = "table"
RUNNING_STEPS = (*DOMAIN_STEPS, FILL)  # those that have statistics


def parse(steps: str | Sequence[str] | None) -> tuple[str, ...]:
    """The steps as a tuple of known names; one string may join several with '+'.

    >>> parse("signed-sqrt+unit")
    ('signed-sqrt', 'unit')
    """
    names = () if steps is None else tuple(steps.split("+")) if isinstance(steps, str) else tuple(steps)
    names = tuple(str(name).strip() for name in names if str(name).strip() not in ("", "none"))
    for name in names:
        if name not in INSTANCE_STEPS and name not in (*RUNNING_STEPS, AUTO, TABLE) and not OWN.fullmatch(name):
            raise unknown("preprocessing step", name, [*INSTANCE_STEPS, *RUNNING_STEPS, AUTO, TABLE])
    return names


def chosen(steps: tuple[str, ...], sources: Sequence[SourceRows], warmup: Matrix) -> tuple[str, ...]:
    """The steps with `auto` replaced by what fits the data: square roots for counts and other non-negative values.

    >>> chosen(("auto", "centre"), [InMemory(np.array([[0.0, 2.0]]))], np.empty((0, 2)))
    ('signed-sqrt', 'unit', 'centre')
    """
    if AUTO not in steps:
        return _filled_in_time(steps)
    negative = min([*summed(sources, Smallest()), Smallest().of(Part(warmup))]) < 0
    own = ("scale",) if negative else ("signed-sqrt", "unit")
    return _filled_in_time(tuple(name for step in steps for name in (own if step == AUTO else (step,))))


def _filled_in_time(steps: tuple[str, ...]) -> tuple[str, ...]:
    """The step `fill` before the first that cannot have gaps: better a mean of numbers that are scaled already.

    >>> _filled_in_time(("fill", "signed-sqrt", "unit", "centre")), _filled_in_time(("fill", "scale"))
    (('signed-sqrt', 'unit', 'fill', 'centre'), ('fill', 'scale'))
    """
    if FILL not in steps:
        return steps
    own = [step for step in steps if OWN.fullmatch(step)]
    rest = [step for step in steps if step != FILL and step not in own]
    able = next((i for i, step in enumerate(rest) if step not in ("signed-sqrt", "unit")), len(rest))
    return (*own, *rest[:able], FILL, *rest[able:]) if "row-minmax" not in rest else (*own, FILL, *rest)


Statistics = Running | Means | Beside


class Preprocess:
    """A composition of steps for the sources (each by its own statistics) and for the target (running statistics).

    >>> pre = Preprocess(("centre", "unit"))
    >>> sources, warmup = pre.start([np.array([[1.0, 2.0], [3.0, 2.0]])], np.array([[4.0, 0.0], [6.0, 0.0]]))
    >>> sources[0].tolist(), warmup.tolist()
    ([[-1.0, 0.0], [1.0, 0.0]], [[-1.0, 0.0], [1.0, 0.0]])
    >>> pre.apply(np.array([[9.0, 0.0]]))
    array([[1., 0.]])
    """

    def __init__(self, steps: str | Sequence[str] | None, running: dict[int, Statistics] | None = None) -> None:
        self.steps = parse(steps)
        self.running = running or {}

    def start(self, sources: Sequence[Matrix], warmup: Matrix) -> tuple[list[Matrix], Matrix]:
        """Scaled sources and scaled warm-up rows; remembers the target's statistics for `apply` and `fold`."""
        rows, warmup = self.start_rows([InMemory(X) for X in sources], warmup)
        return [source.gathered() for source in rows], warmup

    def start_rows(self, sources: Sequence[SourceRows], warmup: Matrix) -> tuple[list[SourceRows], Matrix]:
        """The same for sources wherever they are."""
        own = own_width(self.steps)
        if own:
            width = warmup.shape[1] - own
            beside = Beside.of(warmup[:, width:])
            rows, U = self._start_rows([source.through(Shared(width)) for source in sources], warmup[:, :width])
            self.running[0] = beside
            z = self.length_beside(width) * beside.standard(warmup[:, width:])
            return [source.through(Padded(own)) for source in rows], np.hstack([U, z])
        return self._start_rows(sources, warmup)

    def _start_rows(self, sources: Sequence[SourceRows], warmup: Matrix) -> tuple[list[SourceRows], Matrix]:
        sources = list(sources)
        self.steps = chosen(self.steps, sources, warmup)
        there: list[Array] | None = None  # which features each source has, where some may have gaps
        for i, step in enumerate(self.steps):
            if OWN.fullmatch(step):
                continue
            if step in INSTANCE_STEPS:
                sources = [source.through(INSTANCE_STEPS[step]) for source in sources]
                warmup = INSTANCE_STEPS[step](warmup) if warmup.shape[0] else warmup
                continue
            warmup = densified(warmup, step)
            sources = [source.through(Densified(step)) for source in sources]
            if step == FILL:
                sources, warmup, there = self._start_filling(i, sources, warmup)
                continue
            own = summed(sources, Spread())
            if step == "scale":
                rows = warmup if len(warmup) else np.zeros((1, warmup.shape[1]))
                fixed = Running.frozen(own or [Running.of(rows)], there if own else None)
                self.running[i] = fixed
                sources = [source.through(Scaled(step, fixed)) for source in sources]
                warmup = fixed.scale(warmup, step)
                continue
            if len(warmup) or own:
                now = Running.of(warmup) if len(warmup) else Running.average(own)
            else:
                now = Running.of(np.zeros((1, warmup.shape[1])))
            self.running[i] = now
            sources = [source.through(Scaled(step, stats)) for stats, source in zip(own, sources, strict=True)]
            warmup = now.scale(warmup, step)
        return sources, warmup

    def _start_filling(
        self, i: int, sources: list[SourceRows], warmup: Array
    ) -> tuple[list[SourceRows], Array, list[Array]]:
        """Gaps of every domain by its own means; which features each source has."""
        own, target = summed(sources, Present()), Means.of(warmup)
        everyone = [*own, target]
        means = [each.completed(everyone) for each in own]
        self.running[i] = now = target.completed(own)
        filled = [source.through(Filled(by)) for source, by in zip(sources, means, strict=True)]
        return filled, now.fill(warmup), [each.n > 0 for each in own]

    def apply(self, X: Matrix) -> Matrix:
        """Target rows by the statistics so far; nothing is remembered."""
        return self._through(X, None)

    def fold(self, X: Matrix, learned: Array) -> Matrix:
        """Target rows in order, each by the statistics before it; the learned ones are folded in."""
        return self._through(X, learned)

    def length_beside(self, width: int) -> float:
        """How long a column beside is: as a feature of the others, if rows end as unit vectors."""
        return 1 / np.sqrt(width) if self.steps[-1] == "unit" else 1.0

    def _through(self, X: Matrix, learned: Array | None) -> Matrix:
        beside = self.running.get(0)
        if isinstance(beside, Beside):
            width = X.shape[1] - len(beside.n)
            z = self.length_beside(width) * beside.standard(X[:, width:], learned)
            return np.hstack([self._shared(np.ascontiguousarray(X[:, :width]), learned), z.astype(X.dtype)])
        return self._shared(X, learned)

    def _shared(self, X: Matrix, learned: Array | None) -> Matrix:
        for i, step in enumerate(self.steps):
            if step in INSTANCE_STEPS:
                X = INSTANCE_STEPS[step](X)
            elif isinstance(stats := self.running[i], Means):
                X = stats.fill(densified(X, step), learned)
            elif isinstance(stats, Running):
                X = stats.scale(densified(X, step), step, None if step == "scale" else learned)
        return X

    def arrays(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """The statistics as named arrays (the arrays themselves): those that never change, and those that do."""
        fixed: dict[str, Array] = {}
        running: dict[str, Array] = {}
        for i, stats in self.running.items():
            side = fixed if self.steps[i] == "scale" else running
            side |= {f"pre.{i}.{name}": value for name, value in vars(stats).items()}
        return fixed, running

    @classmethod
    def of_arrays(cls, steps: Sequence[str], arrays: Mapping[str, Array]) -> Preprocess:
        """The inverse of `arrays`."""
        running: dict[int, Statistics] = {}
        for i, step in enumerate(steps):
            if step in DOMAIN_STEPS:
                running[i] = Running(*(arrays[f"pre.{i}.{name}"] for name in ("n", "shift", "total", "squares")))
            elif OWN.fullmatch(step):
                running[i] = Beside(*(arrays[f"pre.{i}.{name}"] for name in ("n", "shift", "total", "squares")))
            elif step == FILL:
                running[i] = Means(*(arrays[f"pre.{i}.{name}"] for name in ("n", "shift", "total")))
        return cls(steps, running)
