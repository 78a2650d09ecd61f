"""What users hand in, as arrays: rows, tables, labels, weights and names, checked once before anything changes.

`Inputs` is how a fitted model reads rows. Behind it a model of tables is one of numbers: `n_features_in_` and
`feature_names_in_` are those of the numbers, and an array is taken for rows that were encoded before.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array

from hedgerow.core.arrays import (
    LARGEST,
    Array,
    Matrix,
    as_array,
    as_floats,
    as_narwhals,
    cast,
    check_finite,
    check_mask,
    check_no_text,
    check_parts,
    checked_csr,
    is_sparse,
)
from hedgerow.core.domains import (
    Domain,
    Frame,
    as_frame,
    check_same_order,
    listed,
    names_of_row,
    names_of_table,
    order_by_name,
    same_columns,
)
from hedgerow.core.errors import InputError, grouped, together, unknown
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.preprocess import TABLE, parse
from hedgerow.core.source_rows import InMemory
from hedgerow.core.values import Codes, as_labels, classes_of, is_missing, objects, plain
from hedgerow.findings import Findings, check_kinds, check_labels, examine
from hedgerow.methods import choose, paper_options
from hedgerow.rows.domains import read, read_unlabelled, unique_names, without_time
from hedgerow.rows.inputs import stem
from hedgerow.rows.partitions import PartitionedSource
from hedgerow.tables import Named, TableEncoder, TableOptions, learn

Params = Mapping[str, Any]  # those of an estimator
DOUBLE = np.dtype(np.float64)

# -- rows --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Labelled:
    """A source in memory: its rows, their labels and weights."""

    name: str
    X: Any
    labels: Array
    weight: Array | None = None

    def rows(self, classes: Array, dtype: np.dtype[Any]) -> InMemory:
        """The rows with the places of their labels among these classes as codes."""
        return InMemory(self.X, Codes(classes).of(self.labels), self.weight)


@dataclass(frozen=True, eq=False)
class Inputs:
    """How a model reads rows: their width, their names, the type of their numbers, gaps, the encoder of its tables.

    `bare` says that rows without names are no oversight: the names came with domains, with a file or from an encoder.
    `dtype` and `gaps` (whether NaN is allowed) are those of the learner.
    """

    width: int
    names: Array | None = None
    bare: bool = True
    encoder: TableEncoder | None = None
    dtype: np.dtype[Any] = DOUBLE
    gaps: bool = False
    owner: str = "OnlineTransferClassifier"

    # -- before a model is fitted: what it is fitted on ----------------------------------------------------------------

    @classmethod
    def of_rows(
        cls, params: Params, X: Any, owner: str, gaps: bool = False
    ) -> tuple[Self | None, Any]:
        """Rows of numbers, and how they are read from now on; or None, and a table that needs an encoder."""
        frame = table_of(params, X)
        if frame is not None:
            return None, frame
        names = names_of_table(X, "X")
        with uninterrupted(), one_blas_thread:
            X = cast(_numbers(X, names, owner, 1), checked_dtype(params))
            check_finite(X, "X", names, gaps)
        return cls(X.shape[1], _array(names), bare=False, owner=owner), X

    @classmethod
    def of_domains(
        cls, params: Params, sources: Sequence[Domain], warmup: Domain | None
    ) -> tuple[Self, list[Labelled], Matrix]:
        """Named domains with the same columns in the same order; by an encoder if one of them needs it."""
        domains = [*sources, *([] if warmup is None else [warmup])]
        labels = [np.empty(0) if d.y is None else d.y for d in sources]
        if asked_for(params) or need_encoder(domains):
            parts = [Labelled(d.name, as_table(d), y) for d, y in zip(sources, labels, strict=True)]
            return cls.of_tables(
                params, parts, None if warmup is None else Named(warmup.name, as_table(warmup))
            )
        alike = same_columns(domains)
        dtype = checked_dtype(params) or np.result_type(*(d.X.dtype for d in alike))
        matrices = [cast(d.X, dtype) for d in alike]
        for d, X in zip(alike, matrices, strict=True):
            check_finite(X, f"domain {d.name!r}", d.feature_names)
        names = next((d.feature_names for d in alike if d.feature_names is not None), None)
        parts = [Labelled(d.name, X, y) for d, X, y in zip(sources, matrices, labels, strict=False)]
        return (
            cls(matrices[0].shape[1], _array(names)),
            parts,
            matrices[0][:0] if warmup is None else matrices[-1],
        )

    @classmethod
    def of_tables(
        cls, params: Params, sources: Sequence[Labelled], warmup: Named | None, where: str = ""
    ) -> tuple[Self, list[Labelled], Matrix]:
        """Tables as numbers, by an encoder learned from all of them."""
        method, chosen = choose({**params, "preprocess": None})
        target = None if warmup is None or not len(warmup.table) else warmup
        tables = [Named(f"{where}{source.name}", source.X) for source in sources]
        options = TableOptions.of(params["table"])
        every = [*tables, *([] if target is None else [target])]
        check_kinds(every, options)
        encoder, numbers = learn(tables, target, options, method.takes_target_only(chosen))
        numbers = [np.asarray(cast(X, checked_dtype(params))) for X in numbers]
        names = encoder.feature_names
        for domain, X in zip([*tables, target], numbers, strict=False):
            check_finite(
                X, "X" if where or domain is None else f"domain {domain.name!r}", names, gaps=True
            )
        encoded = [replace(source, X=X) for source, X in zip(sources, numbers, strict=False)]
        unlabelled = numbers[-1] if target is not None else np.empty((0, encoder.width))
        return cls(encoder.width, _array(names), encoder=encoder), encoded, unlabelled

    # -- for a fitted model --------------------------------------------------------------------------------------------

    def matrix(self, X: Any) -> Matrix:
        """Rows as the model has them; refused unless they are its features, in its order."""
        if self.encoder is not None:
            X = _encoded(self.encoder, X)
        # NaN are looked for by a product, whose threads would still be busy in the step after it
        with uninterrupted(), one_blas_thread:
            if not self._has_only_numbers_to_check(X):
                X = self._read(X)
            check_finite(X, "X", self.names, self.gaps)
        return X

    def _has_only_numbers_to_check(self, X: Any) -> bool:
        """Whether an array is as the model has it: looking at everything else takes a millisecond a call."""
        if (
            type(X) is not np.ndarray
            or X.ndim != 2
            or X.dtype != self.dtype
            or not X.flags.c_contiguous
        ):
            return False
        return (self.names is None or self.bare) and X.shape[1] == self.width

    def _read(self, X: Any) -> Matrix:
        names = names_of_table(X, "X")
        if names is not None and self.names is not None:
            check_same_order(names, self.names)
        elif names is not None:
            warnings.warn(
                f"X has feature names, but {self.owner} was fitted without feature names",
                stacklevel=4,
            )
        elif self.names is not None and not self.bare:
            lacks = "X does not have valid feature names"
            warnings.warn(f"{lacks}, but {self.owner} was fitted with feature names", stacklevel=4)
        X = _numbers(X, names, self.owner, 0)
        if X.shape[1] != self.width:
            expected = (
                f"{self.owner} is expecting {self.width} features as input."  # scikit-learn's words
            )
            raise InputError(f"X has {X.shape[1]} features, but {expected}")
        return cast(X, self.dtype)

    def row(self, x: Any) -> Matrix:
        """One instance, a 1-d array or a sparse 1 x m matrix: an array, a Series, a table of one row, a mapping.

        What has names comes in the model's order (`hedgerow.core.domains`).
        """
        usual = (
            type(x) is np.ndarray
            and x.shape == self._shape
            and x.dtype == self.dtype
            and x.flags.c_contiguous
        )
        if usual and np.vdot(x, x) <= self._largest_square:  # x.dot would warn of an overflow
            return x  # nothing about it is to be checked or changed
        if self.encoder is not None:
            x = _encoded_row(self.encoder, x)
        if isinstance(x, Mapping):
            x = self._of_mapping(x)
        if is_sparse(x):
            row = cast(
                checked_csr(x if x.ndim == 2 else check_parts(x, "x").reshape((1, -1)), "x"),
                self.dtype,
            )
        else:
            row = self._dense_row(x)
        if row.shape != (1, self.width):
            remedy = "; give one row, as X[0] is one of X" if len(np.shape(x)) > 1 else ""
            raise InputError(
                f"x: expected one instance of {self.width} features, got shape {np.shape(x)}{remedy}"
            )
        check_finite(row, "x", self.names, self.gaps)
        return row if is_sparse(row) else np.ascontiguousarray(row[0])

    def _of_mapping(self, x: Mapping[Any, Any]) -> list[Any]:
        """Values in the model's order; what is not there is a gap, unless an unknown name may be its new one."""
        names = self._named
        if names is None:
            raise InputError(
                "x is a mapping, but the model was fitted without feature names; give a 1-d array"
            )
        values = [x.get(name, np.nan) for name in names]
        missing = [name for name in names if name not in x]
        if missing and not (self.gaps and x and names.keys() >= set(x)):
            unknown = [key for key in x if key not in names]
            beside = f" and has {listed(unknown)}, which the model does not know" if unknown else ""
            raise InputError(f"x lacks {listed(missing)}{beside}; give every feature by its name")
        return values

    @cached_property
    def _named(self) -> dict[Any, None] | None:
        return None if self.names is None else dict.fromkeys(self.names)

    @cached_property
    def _shape(self) -> tuple[int]:
        return (self.width,)

    @cached_property
    def _largest_square(self) -> float:
        return LARGEST[self.dtype] ** 2

    def columns(self, x: Any) -> tuple[list[str], list[tuple[int, int]] | None, list[Any] | None]:
        """Columns as the user knows them: names, first number and width of each, and the cells that a mapping has."""
        if self.encoder is None:
            names = (
                [f"x{j}" for j in range(self.width)]
                if self.names is None
                else [str(name) for name in self.names]
            )
            return names, None, None
        widths = [len(column.names) for column in self.encoder.used]
        spans = [(sum(widths[:j]), width) for j, width in enumerate(widths)]
        names = list(self.encoder.names)
        return names, spans, [x.get(name) for name in names] if isinstance(x, Mapping) else None

    def _dense_row(self, x: Any) -> Array:
        bare = isinstance(x, np.ndarray | list | tuple)
        own = None if bare else names_of_row(x)
        row = cast(as_floats(x, "x", "a row of numbers", self.names), self.dtype)
        row = row[None] if bare else np.atleast_2d(row)
        if own is not None and self.names is None:
            warnings.warn(
                "x has feature names, but the model was fitted without feature names", stacklevel=4
            )
        elif own is not None and self.names is not None and row.ndim == 2:
            order = order_by_name(own, self.names, "x", "the model's")
            row = row if order is None else row[:, order]
        return row


def _array(names: Any) -> Array | None:
    return None if names is None else np.array(names, dtype=object)


def _numbers(X: Any, names: Any, owner: str, least: int) -> Matrix:
    """A table of numbers as scikit-learn checks it; finite or not is seen later."""
    if is_sparse(X):
        X = checked_csr(X, "X")
    check_mask(X, "X", names)
    try:
        if not is_sparse(X):
            check_no_text(X, "X", "a table of numbers", names)
        return check_array(
            X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False, ensure_min_samples=least,
            estimator=owner, input_name="X",
        )  # fmt: skip
    except InputError:
        raise
    except ValueError as error:
        where = "X: " if "array element" in str(error) else ""
        raise InputError(f"{where}{error}") from error


def first_row(x: Any) -> Any:
    """One instance, before any other, as a table of one row that keeps its names."""
    if isinstance(x, Mapping):
        raise InputError(
            "x is a mapping, but no feature names are known yet; fit first, or give a 1-d array"
        )
    if is_sparse(x) or names_of_table(x, "x") is not None:
        return x
    if names_of_row(x) is not None:  # a Series
        return x.to_frame().T
    row = as_floats(x, "x", "a row of numbers")
    if row.ndim != 1:
        raise InputError(
            f"x: expected one instance, a 1-d array, got shape {row.shape}; partial_fit learns many rows"
        )
    return row[None]


def checked_dtype(params: Params) -> str | None:
    """float32, float64, or None for as the data comes."""
    dtype = paper_options(params).dtype
    if dtype not in (None, "float32", "float64"):
        raise InputError(f"dtype={dtype!r}: use 'float32', 'float64' or None")
    return dtype


# -- domains -----------------------------------------------------------------------------------------------------------

Rows = (
    Any  # a Domain, a file name, a table with names, (X, y), or X alone where no labels are wanted
)
FILES = (str, os.PathLike)
UNLABELLED = "unlabelled"  # what rows of the target that are known in advance are called
STREAM = "stream"


def named_rows(
    sources: Mapping[str, Rows] | Iterable[Rows], unnamed: str
) -> list[tuple[str, Rows]]:
    """The sources with names that differ: their own, those of their files, else `unnamed` with their numbers."""
    if isinstance(sources, Mapping):
        return [(str(name), rows) for name, rows in sources.items()]
    one = isinstance(sources, (Domain, PartitionedSource, *FILES)) or hasattr(sources, "columns")
    if not one and not isinstance(sources, Iterable):
        raise InputError(
            f"sources of type {type(sources).__name__}; give a list of domains, tables, file names or (X, y)"
        )
    every = [sources] if one else list(sources)
    of_files = iter(unique_names([Path(rows) for rows in every if isinstance(rows, FILES)]))
    names = [
        next(of_files)
        if isinstance(rows, FILES)
        else rows.name
        if isinstance(rows, Domain | PartitionedSource)
        else unnamed.format(i)
        for i, rows in enumerate(every, start=1)
    ]
    again = [name for name in names if names.count(name) > 1]
    if again:
        raise InputError(
            f"two sources are called {again[0]!r}; give each a name of its own, or a mapping of names to sources"
        )
    return list(zip(names, every, strict=True))


def domain_of(
    rows: Rows, name: str, label: str | None, order_by: str | None = None
) -> tuple[Domain, Any]:
    """A domain and, if it has that column, its times. The name of a `STREAM` is its own, or that of its file."""
    if isinstance(rows, Domain):
        return (rows if name in (STREAM, rows.name) else replace(rows, name=name)), None
    if isinstance(rows, FILES):
        called = stem(str(rows)) if name == STREAM else name
        domain = (
            read_unlabelled(rows, label)
            if name == UNLABELLED
            else read(rows, label=label, name=called)
        )
        return (domain, None) if order_by is None else without_time(domain, order_by)
    if isinstance(rows, tuple):
        if len(rows) != 2:
            raise InputError(f"{name}: a tuple of {len(rows)}; give (X, y)")
        return Domain(name, *rows), None
    columns = names_of_table(rows, name)
    if columns is None:
        return Domain(name, rows), None
    frame = as_narwhals(rows, name)
    y, times = (
        frame[column].to_numpy() if column in columns else None for column in (label, order_by)
    )
    return Domain(name, frame.drop([label, order_by], strict=False).to_native(), y), times


def labelled_domains(
    named: Iterable[tuple[str, Rows]], label: str | None, order_by: str | None = None
) -> list[Domain]:
    """Sources as domains; one without labels is refused."""
    domains = [domain_of(rows, name, label, order_by)[0] for name, rows in named]
    for d in domains:
        if d.y is None:
            raise InputError(
                f"source {d.name!r} has no labels; name their column, label=.., or give (X, y); rows of the target "
                "are no source: pass them as warm-up"
            )
    return domains


# -- tables: when an encoder is needed, and rows through it ------------------------------------------------------------


def asked_for(params: Params) -> bool:
    """Whether the parameters ask for an encoder whatever the columns are."""
    return params["table"] is not None or TABLE in parse(params["preprocess"])


def table_of(params: Params, X: Any) -> Frame | None:
    """X as a table that needs an encoder; None for rows of numbers."""
    frame = as_frame(X, "X")
    if not asked_for(params):
        return None if frame is None or frame.plain else frame
    if frame is not None:
        return frame
    if is_sparse(X):
        raise InputError(
            "X: preprocess='table' is for columns, and a sparse matrix has numbers; leave it out"
        )
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise InputError(
            f"X: expected a table with a row per instance, got an array of shape {rows.shape}"
        )
    return Frame.of_matrix(rows)


def need_encoder(domains: Sequence[Domain]) -> bool:
    """Whether a domain has columns that are no numbers, or gaps, or not all have the same columns."""
    named = [set(d.feature_names) for d in domains if d.feature_names is not None]
    different = len(named) == len(domains) and any(names != named[0] for names in named)
    return different or any(isinstance(d.X, Frame) for d in domains)


def as_table(d: Domain) -> Frame:
    """The rows of a domain column by column."""
    if isinstance(d.X, Frame):
        return d.X
    if is_sparse(d.X):
        raise InputError(
            f"domain {d.name!r}: a sparse matrix beside tables; make it dense, or encode the others first"
        )
    return Frame.of_matrix(d.X, d.feature_names)


def examined(
    sources: Sequence[Domain], target: Domain | None, table: Any, task: str, stops: bool = True
) -> Findings:
    """What is to be known of domains before a model is fitted on them; refused if nothing should be and it `stops`."""
    parts = [*sources, *([] if target is None else [target])]
    if any(is_sparse(d.X) for d in parts):
        return Findings((), [], [])
    check_labels([(d.name, np.asarray(d.y)) for d in sources if d.y is not None])
    tables = [Named(d.name, as_table(d), d.y) for d in parts]
    rows = None if target is None else tables.pop()
    found = examine(tables, rows, TableOptions.of(table), task == REGRESS)
    if stops:
        found.stop()
    return found


def numbers_of(encoder: TableEncoder | None, d: Domain) -> Matrix:
    """The rows of a domain that a model was fitted on, by its encoder, if it has one."""
    return d.X if encoder is None else encoder.encode(as_table(d), fitting=True, where=d.name)


def _encoded(encoder: TableEncoder, X: Any) -> Any:
    """Rows as numbers: a table by its names; an array is encoded already."""
    numbers, reasons = usable(encoder, X) or (X, {})
    if reasons:
        raise InputError(together(grouped((f"X, row {i}", why) for i, why in reasons.items())))
    return numbers


def usable(encoder: TableEncoder, X: Any) -> tuple[Array, dict[int, str]] | None:
    """The numbers of rows, and why some cannot be used (zeros stand for these); None for rows that are numbers already.

    Only a table that has none of the columns is refused as a whole.
    """
    reasons: dict[int, str] = {}
    if isinstance(X, list) and X and all(isinstance(row, Mapping) for row in X):
        reasons = {i: why for i, row in enumerate(X) if (why := encoder.lacks_all(row))}
        names = {name: None for i, row in enumerate(X) if i not in reasons for name in row}
        if missing := encoder.missing_from(names, keys=True):
            warnings.warn(f"X: {missing}", stacklevel=5)
        numbers, bad = encoder.read(lambda name: [row.get(name) for row in X], len(X))
    else:
        frame = (
            _by_position(encoder, X)
            if isinstance(X, np.ndarray) and X.ndim == 2
            else as_frame(X, "X")
        )
        if frame is None:
            return None
        if why := encoder.lacks_all(frame.names):
            raise InputError(f"X: {why}")
        if missing := encoder.missing_from(frame.names):
            warnings.warn(f"X: {missing}", stacklevel=5)
        numbers, bad = encoder.as_written(frame.column).read(frame.column, len(frame))
    for i, error in bad:
        reasons[i] = f"{reasons[i]}; {error}" if i in reasons else str(error)
    numbers[list(reasons)] = 0.0
    return numbers, dict(sorted(reasons.items()))


def _encoded_row(encoder: TableEncoder, x: Any) -> Any:
    """One row as numbers: a mapping, a Series or a table of one row; an array is encoded already."""
    if isinstance(x, np.ndarray) or is_sparse(x):
        return _encoded(encoder, x[None])[0] if x.ndim == 1 else x
    if isinstance(x, Mapping):
        if why := encoder.lacks_all(x):
            raise InputError(f"x: {why}")
        return np.array(encoder.of_mapping(x))
    names = names_of_row(x)
    if names is None:
        return x
    frame = as_frame(x, "x")
    if frame is None:  # a Series
        return _encoded_row(encoder, dict(zip(names, x.tolist(), strict=True)))
    if len(frame) != 1:
        raise InputError(f"x: expected one instance, got a table of {len(frame)} rows")
    return _encoded(encoder, x)[0]


def _by_position(encoder: TableEncoder, X: Array) -> Frame | None:
    """Rows of an array as the columns of the array that the model was fitted on, if that had no names; else None."""
    frame = None if X.shape[1] == encoder.width else Frame.of_matrix(X)
    return (
        frame
        if frame is not None and {*encoder.names, *encoder.left_out} == set(frame.names)
        else None
    )


# -- labels, weights, numbers of sources -------------------------------------------------------------------------------

LIGHTEST = 1e-6  # weights beyond lose all digits beside others, or leave the others none
HEAVIEST = 1e6
DOMAIN_NUMBERS = (
    "whole numbers (>= 0: the number of a source, < 0: unlabelled target), or names (None: target)"
)
FEW_VALUES = 20  # different whole numbers that are certainly classes
MANY_VALUES = 50  # different ones, and rows for each, beyond and below which they are no classes
ROWS_A_CLASS = 50
NEW_CLASSES = 1_000  # that a stream may bring unasked, beside those of the sources
SOURCE_CLASSES = 10_000  # that sources may have unasked
TASKS = CLASSIFY, REGRESS = "classify", "regress"


def weighted_labels(y: Any, sample_weight: Any, length: int) -> tuple[Array, Array | None]:
    """One label a row and how much it counts; a label of weight 0 is as good as missing."""
    labels = checked_labels(y, length)
    weight = checked_weights(sample_weight, length)
    if weight is not None and not weight.all():
        labels = labels.astype(object)
        labels[weight == 0] = None
    return labels, weight


def checked_labels(y: Any, length: int) -> Array:
    """One label a row; a column of them is taken with a warning."""
    shape: tuple[int, ...] = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
            "(n_samples,), for example using ravel().", DataConversionWarning, stacklevel=3,
        )  # fmt: skip
    return as_labels(y, "y", length)


def check_sources(sources: Sequence[Any]) -> list[str]:
    """The names of sources, if they differ; every row needs a label."""
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two sources are called {twice!r}; give each a name of its own")
    for source in sources:
        if (missing := is_missing(source.labels)).any():
            where = f"source {source.name!r}: Input y contains NaN or None at row {int(missing.argmax())}"
            raise InputError(f"{where}; a source row needs a label")
    check_labels([(source.name, source.labels) for source in sources])
    return names


def kind_of_targets(labels: Array) -> str | None:
    """What known labels are: "classes", "numbers", or None for whole numbers that may be either.

    Numbers have fractions; or they are whole, many, with gaps between them and few rows for each.

    >>> kind_of_targets(np.array(["a", "b"])), kind_of_targets(np.array([3, 5])), kind_of_targets(np.arange(30))
    ('classes', 'classes', None)
    >>> kind_of_targets(np.array([0.5, 1])), kind_of_targets(np.arange(100) ** 2)
    ('numbers', 'numbers')
    """
    if (
        labels.dtype.kind not in "iuf" or not np.isfinite(labels).all()
    ):  # infinity is refused where classes are found
        return "classes"
    if (labels != np.floor(labels)).any():
        return "numbers"
    values = np.unique(labels)
    if len(values) <= FEW_VALUES:
        return "classes"
    gaps = float(values[-1]) - float(values[0]) >= len(values)
    many = len(values) > MANY_VALUES and len(labels) < ROWS_A_CLASS * len(values)
    return "numbers" if gaps and many else None


def task_of_labels(parts: Sequence[Array], label: str | None, asked: str | None = None) -> str:
    """Whether the labels of all domains are classes or numbers, one of `TASKS`; as asked, if it was."""
    if asked not in (None, *TASKS):
        raise unknown("task", str(asked), TASKS)
    if asked is not None:
        return asked
    known = [y[~is_missing(y)] for y in parts]
    numeric = all(y.dtype.kind in "iuf" for y in known)
    labels = np.concatenate(known) if numeric else all_labels(known)
    kind = kind_of_targets(labels)
    if kind is None:
        raise InputError(
            f"the label {label!r} has {len(np.unique(labels))} different whole numbers: say --task classify if they "
            "name classes, --task regress if they are amounts"
        )
    return REGRESS if kind == "numbers" else CLASSIFY


def check_targets(known: Array, one_a_row: bool = True) -> None:
    """Refuse labels that are measurements; of different labels (not `one_a_row`) only fractions tell."""
    if kind_of_targets(known if one_a_row else np.repeat(known, ROWS_A_CLASS)) == "numbers":
        raise InputError(
            f"Unknown label type: continuous ({len(np.unique(known))} different numbers, such as {known[0]}); this "
            "looks like regression: use OnlineTransferRegressor (a fleet: Fleet(sources, OnlineTransferRegressor())). "
            "If they name classes, allow them with max_classes="
        )


def checked_weights(
    sample_weight: Any, length: int, looked_at: Array | None = None
) -> Array | None:
    """How much each label counts, one number a row: 0 (not at all), or LIGHTEST to HEAVIEST; None is one for all.

    Weights that are not `looked_at` (those of unlabelled rows) may be anything.

    >>> checked_weights([1, 0.5], 2)
    array([1. , 0.5])
    """
    if sample_weight is None:
        return None
    weight = np.array(
        as_floats(sample_weight, "sample_weight", "numbers, one >= 0 a row"),
        dtype=np.float64,
        order="C",
    )
    weight = np.full(length, float(weight)) if weight.ndim == 0 else weight
    if weight.shape != (length,):
        raise InputError(
            f"sample_weight: shape {weight.shape} for {length} rows; give one number a row"
        )
    good = (weight == 0) | ((weight >= LIGHTEST) & (weight <= HEAVIEST))
    bad = np.flatnonzero(~good if looked_at is None else ~good & looked_at)
    if len(bad):
        raise InputError(
            f"sample_weight: {weight[bad[0]]} at row {bad[0]}; a weight is 0 or between {LIGHTEST:g} and {HEAVIEST:g}: "
            "divide all weights by their mean, or give 0 for a label that does not count"
        )
    return weight


def one_weight(weight: Any) -> float:
    """How much one label counts; None is one."""
    checked = checked_weights(weight, 1)
    return 1.0 if checked is None else float(checked[0])


def fixed_classes(classes: Any) -> Array:
    """The classes that a user fixed, sorted."""
    labels = as_labels(list(classes), "classes")
    if is_missing(labels).any():
        raise InputError(
            f"classes={list(classes)}: None and NaN stand for a missing label and cannot be a class"
        )
    return classes_of(labels, "classes")


def cost_matrix(costs: Any, classes: Sequence[Any]) -> Array:
    """What it costs to predict a class (a column) where another is true (a row); one met later costs 1 if missed.

    >>> cost_matrix({"fraud": 50}, ["fine", "fraud"])
    array([[ 0.,  1.],
           [50.,  0.]])
    """
    K = len(classes)
    matrix = 1.0 - np.eye(K)
    remedy = "give {class: cost of missing it}, or a matrix with a row a true class, in the order of classes_"
    if isinstance(costs, Mapping):
        for label, cost in costs.items():
            if label not in classes:
                raise InputError(
                    f"costs: {label!r} is none of the classes {listed(classes)}; {remedy}"
                )
            if not isinstance(cost, int | float):
                raise InputError(f"costs: {cost!r} of {label!r} is not a number; {remedy}")
            matrix[list(classes).index(label)] *= cost
    else:
        given = np.array(as_floats(costs, "costs", "numbers"), dtype=float)
        if given.ndim != 2 or given.shape[0] != given.shape[1] or len(given) > K:
            raise InputError(f"costs: of shape {given.shape} for {K} classes; {remedy}")
        matrix[: len(given), : len(given)] = given
    if not (np.isfinite(matrix).all() and (matrix >= 0).all()):
        raise InputError(f"costs: a cost is finite and not below 0; {remedy}")
    return matrix


def all_classes(parts: list[Array]) -> Array:
    """The classes of all sources, sorted."""
    return classes_of(all_labels(parts), "y") if parts else np.empty(0, dtype=object)


def all_labels(parts: list[Array]) -> Array:
    """The labels of all sources together."""
    alike = len({y.dtype.kind for y in parts}) == 1
    return np.concatenate(parts if alike else [y.astype(object) for y in parts])


def sample_domains(sample_domain: Any, n: int) -> tuple[Array, list[Any]]:
    """A whole number a row, and the names of the sources by number; without any, all rows are one source.

    >>> sample_domains(["lyon", "vienna", None, "lyon"], 4)
    (array([ 0,  1, -1,  0]), ['lyon', 'vienna'])
    """
    if sample_domain is None:
        return np.zeros(n, dtype=np.int64), []
    check_mask(sample_domain, "sample_domain")
    try:
        domain = as_array(sample_domain)
    except (TypeError, ValueError):  # names in a column of pandas
        domain = np.asarray(sample_domain, dtype=object)
    if domain.shape != (n,):
        raise InputError(
            f"sample_domain: shape {domain.shape} for {n} rows; give one number or name a row"
        )
    if domain.dtype.kind not in "iuf":
        names = as_labels(sample_domain, "sample_domain")
        known = list(dict.fromkeys(map(plain, names[~is_missing(names)].tolist())))
        if any(isinstance(name, int | float) for name in known):
            raise InputError(f"sample_domain: {known[0]!r} among names; give {DOMAIN_NUMBERS}")
        return Codes(objects(known)).of(names), known
    largest = 2**53 if domain.dtype.kind == "f" else 2**63 - 1  # beyond, floats skip whole numbers
    bad = np.flatnonzero(
        ~((domain == np.floor(domain)) & (domain <= largest) & (domain >= -largest))
    )
    if len(bad):
        raise InputError(f"sample_domain: {domain[bad[0]]} at row {bad[0]}; give {DOMAIN_NUMBERS}")
    return domain.astype(np.int64), []


def split_rows(
    X: Any, y: Any, sample_domain: Any, sample_weight: Any
) -> tuple[list[Labelled], Any, list[Array]]:
    """The sources, without rows of weight 0; the rows of the target; where those of the sources stood."""
    labels = checked_labels(y, X.shape[0])
    domain, names = sample_domains(sample_domain, X.shape[0])
    weight = checked_weights(sample_weight, X.shape[0], domain >= 0)
    sources = []
    places = []
    for i in np.unique(domain[domain >= 0]):
        name = str(names[i] if names else i)
        at = np.flatnonzero((domain == i) & (True if weight is None else weight > 0))
        if not len(at):
            raise InputError(
                f"sample_weight: every weight of source {name!r} is zero; leave its rows out, or weigh one"
            )
        sources.append(Labelled(name, X[at], labels[at], None if weight is None else weight[at]))
        places.append(at)
    return sources, X[domain < 0], places


def check_target_rows(sample_domain: Any, n: int, allow_source: bool) -> None:
    """Refuse rows of sources where those of the target are to be predicted, unless they are allowed."""
    if sample_domain is None:
        return
    of_sources = np.flatnonzero(sample_domains(sample_domain, n)[0] >= 0)
    if len(of_sources) and not allow_source:
        raise InputError(
            f"sample_domain: row {of_sources[0]} is of a source (>= 0), and predictions are for the target; leave such "
            "rows out, or say allow_source=True to have them predicted as if they were the target's"
        )


def check_new_classes(
    max_classes: int | None, of_sources: int, known: int, new: Sequence[Any] | Array
) -> None:
    """Refuse the label that is one class too many, before the model makes room for it.

    `of_sources` is the number of classes that the sources have; without `max_classes` a stream may add NEW_CLASSES.
    """
    limit = of_sources + NEW_CLASSES if max_classes is None else max_classes
    if known + len(new) > limit:
        first = max(limit, known)  # the number of classes before the one too many
        raise InputError(
            f"y: label {plain(new[first - known])!r} would be class {first + 1}, and {_limit(limit, max_classes)}; "
            f"is this the column of labels? If it is, set_params(max_classes={2 * first}) allows more"
        )


def check_classes(max_classes: int | None, classes: Array, listed: bool) -> None:
    """Refuse more classes than `max_classes` at the start; without it more than SOURCE_CLASSES, unless listed."""
    limit = max_classes if max_classes is not None else len(classes) if listed else SOURCE_CLASSES
    if len(classes) > limit:
        raise InputError(
            f"y: {len(classes)} classes (the last is {plain(classes[-1])!r}), and {_limit(limit, max_classes)}; "
            f"is this the column of labels? If it is, max_classes={len(classes)} allows them"
        )


def _limit(limit: int, max_classes: int | None) -> str:
    return f"the limit is {f'{limit} without max_classes' if max_classes is None else f'max_classes={max_classes}'}"
