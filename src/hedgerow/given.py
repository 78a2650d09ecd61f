"""Models of the user's own as experts: asked about rows as the user has them, and believed as far as they are right.

A model is a function or a fitted estimator. What it says of a row becomes further numbers of the row (`Asking`): the
logarithm of its probability for each of its classes, zeros where it has no answer. From there on rows are numbers as
those of a table are: a journal keeps them, and recovery asks no model. A file keeps names, classes, and what each
model said of a few rows, never the model: who opens the file hands it over again, and it has to say the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, Matrix, dense, is_sparse
from hedgerow.core.domains import names_of_row
from hedgerow.core.errors import InputError
from hedgerow.core.values import Codes, as_labels, labels_from_json, labels_to_json
from hedgerow.inputs import Inputs
from hedgerow.tables import Category, Number

LEAST = 1e-4  # of a probability: a model that excludes a class is not believed further
SUM = 1e-3  # by which probabilities may miss one
SAME = 1e-5  # by which the answers of a model may differ from those that a file has
QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the columns: the rows that a file has answers for


@dataclass(frozen=True, eq=False)
class Expert:
    """A model by its name, the classes in the order of its answers, and what it said of the rows of `questions`.

    `model` is not part of a file.
    """

    name: str
    classes: Array
    model: Any
    said: Array | None = None
    warnings: list[str] = field(default_factory=list)

    def ask(self, X: Any, n: int) -> Array:
        """Log-probabilities of n rows, a column a class; zeros for rows of which it says nothing that can be used."""
        try:
            logs = self._logs(self._answer(X), n)
        except Exception as error:  # whatever a model of the user's own may raise
            self._warn(f"{type(error).__name__}: {error}")
            return np.zeros((n, len(self.classes)))
        silent = np.asarray(np.isnan(logs).any(axis=1))
        if silent.any():
            self._warn(f"no probabilities or scores for {silent.sum()} of {n} rows")
        return np.where(silent[:, None], 0.0, np.clip(logs, np.log(LEAST), 0.0))

    def _answer(self, X: Any) -> Array:
        model = self.model
        if hasattr(model, "predict_proba"):
            return np.asarray(model.predict_proba(X), np.float64)
        if callable(model):
            return np.asarray(model(X), np.float64)
        if hasattr(model, "decision_function"):
            return np.asarray(model.decision_function(X), np.float64)
        codes = Codes(self.classes).of(as_labels(model.predict(X), "the answer"))
        return np.eye(len(self.classes))[codes] + np.where(codes < 0, np.nan, 0.0)[:, None]

    def _logs(self, said: Array, n: int) -> Array:
        """Probabilities, or else scores, as logarithms that are probabilities'; NaN for a row that is neither."""
        K = len(self.classes)
        if said.shape == (n,) and K == 2:
            shares = ((said >= 0) & (said <= 1)).all()
            first = 1 - said if shares else np.zeros(n)
            said = np.stack([first, said], axis=1)
        if said.shape != (n, K):
            raise InputError(f"an answer of shape {said.shape} for {n} rows and {K} classes")
        with np.errstate(all="ignore"):
            shares = (said >= 0).all(axis=1) & (np.abs(said.sum(axis=1) - 1) < SUM)
            top = said.max(axis=1, keepdims=True)
            scores = said - top - np.log(np.exp(said - top).sum(axis=1, keepdims=True))
            logs = np.where(shares[:, None], np.log(np.maximum(said, LEAST)), scores)
        return np.where(np.isfinite(said).all(axis=1, keepdims=True), logs, np.nan)

    def _warn(self, why: str) -> None:
        if not self.warnings:
            self.warnings.append(why)
            warnings.warn(
                f"the expert {self.name!r} abstains where it cannot answer ({why}); this is said once",
                stacklevel=2,
            )


def experts_of(given: Any, known: Sequence[Any] | Array) -> list[Expert]:
    """The experts that an estimator was given by name; one that does not say its classes has those that are known."""
    if not isinstance(given, Mapping) or not given:
        raise InputError(f"experts={given!r}: give models by name, {{'xgb-lyon': model}}, or None")
    experts = []
    for name, model in given.items():
        verbs = ("predict_proba", "decision_function", "predict")
        if not callable(model) and not any(hasattr(model, verb) for verb in verbs):
            raise InputError(
                f"experts: {name!r} is a {type(model).__name__}; give a function of rows, or a fitted classifier"
            )
        classes = getattr(model, "classes_", known)
        if len(classes) < 2:
            raise InputError(
                f"experts: {name!r} does not say which classes it knows; give classes=[...], in the order of what it "
                "answers"
            )
        experts.append(Expert(str(name), as_labels(list(classes), "classes"), model))
    return experts


@dataclass(frozen=True, eq=False)
class Asking(Inputs):
    """Rows as `inner` reads them, and behind their numbers what the experts say of them.

    An array that has all these numbers is taken for rows about which the experts were asked before.
    """

    inner: Inputs = field(kw_only=True)
    experts: tuple[Expert, ...] = ()
    questions: Sequence[Any] = ()

    @classmethod
    def of(cls, inner: Inputs, experts: Sequence[Expert], questions: Sequence[Any] = ()) -> Asking:
        """Reads rows as `inner`, and asks these."""
        names = inner.names
        votes = [f"{each.name}: {label}" for each in experts for label in each.classes.tolist()]
        if names is not None:
            names = np.array([*names, *votes], dtype=object)
        return cls(
            inner.width + len(votes), names, encoder=inner.encoder, inner=inner, experts=tuple(experts),
            questions=questions,
        )  # fmt: skip

    @cached_property
    def _reads(self) -> Inputs:
        return replace(self.inner, dtype=self.dtype, gaps=self.gaps, owner=self.owner)

    @cached_property
    def _whole(self) -> Inputs:
        return Inputs(self.width, dtype=self.dtype, gaps=self.gaps, owner=self.owner)

    def matrix(self, X: Any) -> Matrix:
        """Rows with what the experts say of them."""
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == self.width:
            return self._whole.matrix(X)
        numbers = dense(self._reads.matrix(X))
        return np.ascontiguousarray(np.hstack([numbers, self._said(X, numbers)]))

    def row(self, x: Any) -> Matrix:
        """One instance with what the experts say of it."""
        if isinstance(x, np.ndarray) and x.shape in ((self.width,), (1, self.width)):
            return self._whole.row(x)
        numbers = np.atleast_2d(dense(self._reads.row(x)))
        if not isinstance(x, Mapping) and not is_sparse(x) and np.ndim(x) == 1:
            named = names_of_row(x)
            x = [list(x)] if named is None else dict(zip(named, list(x), strict=True))
        return np.hstack([numbers, self._said([x] if isinstance(x, Mapping) else x, numbers)])[0]

    def _said(self, X: Any, numbers: Array) -> Array:
        n = len(numbers)
        bare = isinstance(X, np.ndarray | list) and not (n and isinstance(X[0], Mapping))
        if bare and self.encoder is not None and np.shape(X) == numbers.shape:
            warnings.warn(
                "rows of a table that were encoded before: the experts, who need the table, are not asked",
                stacklevel=4,
            )
            return np.zeros((n, self.width - self.inner.width))
        if bare:
            X = np.asarray(X)
        elif isinstance(X, list):
            X = self._frame(X)
        return np.hstack([expert.ask(X, n) for expert in self.experts])

    def _frame(self, rows: Sequence[Mapping[Any, Any]]) -> Any:
        """Mappings as a table, which is what models are fitted on."""
        names = [*(self.inner.names if self.encoder is None else self.encoder.names)]  # type: ignore[misc]
        cells = {name: [row.get(name) for row in rows] for name in names}
        try:
            from pandas import DataFrame
        except ModuleNotFoundError:
            return cells
        return DataFrame(cells)

    def columns(self, x: Any) -> tuple[list[str], list[tuple[int, int]] | None, list[Any] | None]:
        """Columns as the user knows them, and the experts as one each."""
        names, spans, cells = self._reads.columns(x)
        spans = spans or [(j, 1) for j in range(self.inner.width)]
        begin = self.inner.width
        for expert in self.experts:
            spans.append((begin, len(expert.classes)))
            begin += len(expert.classes)
        names = [*names, *(expert.name for expert in self.experts)]
        return names, spans, None if cells is None else [*cells, *(None for _ in self.experts)]

    # -- files ----------------------------------------------------------------------------------------------------

    @property
    def models(self) -> Compared:
        """The models by name."""
        return Compared({each.name: each.model for each in self.experts})

    def _answers(self, expert: Expert) -> Array:
        rows: Any = list(self.questions)
        rows = self._frame(rows) if isinstance(rows[0], Mapping) else np.array(rows, np.float64)
        return expert.ask(rows, len(self.questions))

    def asked(self, X: Matrix) -> Asking:
        """With the answers to questions: rows at the quantiles of the columns, or with some of their categories."""
        asking = replace(self, questions=_questions(self.inner, X))
        experts = [replace(each, said=asking._answers(each)) for each in self.experts]
        return replace(asking, experts=tuple(experts))

    def to_json(self) -> dict[str, Any]:
        """What a file has of the experts."""
        experts = [
            {"name": each.name, "classes": labels_to_json(each.classes), "said": each.said}
            for each in self.experts
        ]
        return {"questions": self.questions, "experts": experts}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], inner: Inputs) -> Asking:
        """The inverse, without the models."""
        experts = [
            Expert(
                str(each["name"]),
                labels_from_json(each["classes"]),
                None,
                np.array(each["said"], np.float64),
            )
            for each in data["experts"]
        ]
        asking = cls.of(inner, experts, data["questions"])
        for each in experts:
            if each.said is None or each.said.shape != (len(asking.questions), len(each.classes)):
                raise ValueError(f"the answers of the expert {each.name!r}")
        return asking

    def with_models(self, models: Mapping[str, Any] | None, where: str) -> Asking:
        """With these models by name; refused if they do not say what those that they are to stand for said."""
        names = [each.name for each in self.experts]
        known = models or {}
        if missing := [name for name in names if name not in known]:
            raise ExpertsNeeded(
                f"{where} needs the experts {', '.join(map(repr, missing))}, which no file holds: hand them over where "
                f"your code opens it, experts={{{missing[0]!r}: model}}"
            )
        given = tuple(replace(each, model=known[each.name]) for each in self.experts)
        if isinstance(known, Compared):
            return replace(self, experts=given)
        if more := [name for name in known if name not in names]:
            raise InputError(
                f"{where} has no expert {more[0]!r}; it has {', '.join(map(repr, names))}"
            )
        for each in given:
            off = np.abs(np.exp(self._answers(each)) - np.exp(each.said)).max()  # type: ignore[arg-type]
            if not off <= SAME:
                raise InputError(
                    f"{where}: the expert {each.name!r} is not the model that it was fitted with: its answers differ "
                    f"by up to {off:.2g}; hand over that one, or fit again"
                )
        return replace(self, experts=given)


class ExpertsNeeded(InputError):
    """A model was opened without the experts that it names."""


class Compared(dict[str, Any]):
    """Models that were compared with the answers in a file before."""


def _questions(inner: Inputs, X: Matrix) -> list[Any]:
    """Rows of numbers, or cells by the names of columns."""
    numbers = dense(X)
    usual = np.array(QUANTILES) * 2 - 1
    at = np.repeat(usual[:, None], inner.width, axis=1)
    if len(numbers):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a column of gaps alone
            at = np.nan_to_num(np.nanquantile(numbers, QUANTILES, axis=0))
    if inner.encoder is None:
        return list(at.tolist())
    cells: dict[str, list[Any]] = {}
    for column, (first, _) in zip(inner.encoder.used, inner.encoder.spans, strict=True):
        cells[column.name] = [None] * len(at)
        if isinstance(column, Number):
            cells[column.name] = at[:, first].tolist()
        elif isinstance(column, Category) and column.values:
            cells[column.name] = [column.values[i % column.count] for i in range(len(at))]
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
