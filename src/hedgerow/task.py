"""What a model predicts, classes or numbers, and all that differs between the two outside of the estimators.

Live models, `hedgerow run`, fleets, Spark, the service and what shows a model ask a `Task` instead of the class of the
estimator. A task has no state: there are `CLASSES` and `NUMBERS`, and `task_of` a model is one of them.

| what                    | of `CLASSES`                           | of `NUMBERS`                                     |
|-------------------------|----------------------------------------|--------------------------------------------------|
| the scale of a model    | its classes, by code                   | the coverages of its intervals                   |
| P of a row              | a probability a class                  | the number, half the width of each interval      |
| code of a row           | the place of the class predicted       | 0                                                |
| codes of labels         | places among the classes, below 0 none | the numbers themselves, NaN where there is none  |
| how sure a row is       | the probability of its class           | the first interval                               |
| a vote of an expert     | the code of the class that it names    | its number                                       |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from hedgerow.base import NamedValues, OnlineTransferEstimator
from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.errors import InputError, require
from hedgerow.core.values import MISSING, objects, plain
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.regressor import OnlineTransferRegressor, numbers
from hedgerow.rows.wanted import NUMBERS as READ_AS_NUMBERS
from hedgerow.rows.wanted import listed

Model = OnlineTransferClassifier | OnlineTransferRegressor
MORE_MISTAKES = 0.02  # share of rows by which related sources may be behind the most frequent class
MORE_VARIANCE = 1.3  # times the variance that the squared error of related sources may be


class OtherTask(InputError, AttributeError):
    """Models of numbers were asked for what only those of classes have, or the other way round."""


class Predicted(NamedTuple):
    """Predictions of a block of rows: codes, P (a row each) and what each expert voted, as the table above says."""

    codes: Array
    P: Array
    votes: Array
    weights: dict[str, float] | None = None  # of the experts, where they were asked for


@dataclass(frozen=True, slots=True)
class Answer:
    """A prediction that is in the journal. `id` is what its label is given by; `number` its place among all events.

    `repeated`: the same id was predicted before, and this is what was answered then (votes and weights are not kept).
    """

    id: str
    number: int
    label: Any
    probability: float
    probabilities: dict[Any, float]
    votes: dict[str, Any] | None = None
    weights: dict[str, float] | None = None
    repeated: bool = False

    def fields(self, explain: bool) -> dict[str, Any]:
        """What of it goes over the wire, by the names of `hedgerow.client.Prediction`."""
        about = {"label": self.label, "probability": self.probability}
        return about | (
            {"probabilities": {str(k): p for k, p in self.probabilities.items()}} if explain else {}
        )


@dataclass(frozen=True, slots=True)
class NumberAnswer(Answer):
    """The same of a regressor: `label` is the number that it predicts, `votes` are the numbers of its experts.

    It has no probabilities but an interval for each coverage of the model.
    """

    intervals: dict[float, tuple[float, float]] = field(default_factory=dict)

    @property
    def prediction(self) -> float:
        """The number."""
        return float(self.label)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the model's first coverage."""
        return next(iter(self.intervals.values()))

    def fields(self, explain: bool) -> dict[str, Any]:
        """As of every answer."""
        about = {"prediction": self.label, "interval": self.interval}
        return about | (
            {"intervals": {str(level): ends for level, ends in self.intervals.items()}}
            if explain
            else {}
        )


class LateLabels:
    """What both tasks do about labels that come after their predictions."""

    def known(self, model: Any) -> Any:
        """The newest label that a model knows; None if it knows none, or has no use for it."""
        label = model.known_
        return None if label != label else plain(label)  # NaN

    def late(self, model: Any, X: Matrix, y: Any, known: list[Any], newest: bool) -> None:
        """Labels that came after their predictions, when `known` were the newest (None: there was none).

        Of one row X and y are the row and its label. `newest`: the last of these labels is that of the newest row that
        has one; else the model goes on with what it knew.
        """
        before = model.known_
        if len(known) == 1:  # the compiled step of one row
            model.learn_one(X, y, known=math.nan if known[0] is None else known[0])
        else:
            model.partial_fit(X, y, known=objects(known))
        if not newest:
            model.known_ = before


class ClassTask(LateLabels):
    """Classes with probabilities."""

    name = "classes"
    field = "label"  # of a prediction on the wire
    outcome = "correct"
    values = "classes"  # what a column of different labels counts
    misses = "mistakes"
    measures = ("probability",)
    vote_type = np.dtype("<i4")

    def only(self, model: Any) -> OnlineTransferClassifier:
        """The model, if its task is this one."""
        if not isinstance(model, OnlineTransferClassifier):
            raise OtherTask(
                "a regressor has neither classes nor probabilities, sets or mistakes: predict gives numbers, "
                "predict_interval intervals, and a key has rmse_ and coverage_"
            )
        return model

    def method(self, model: Any) -> str:
        """The name of what the model does."""
        return str(model.method_)

    def title(self, model: Any) -> str:
        """What a model is called above all else that is said of it."""
        return str(model.method_)

    def classes(self, model: Any) -> Array:
        """The classes of a model, by code; none of numbers."""
        return np.asarray(model.classes_)

    def scale(self, model: Any) -> list[Any]:
        """Classes by code, or coverages, as plain values."""
        return [plain(label) for label in model.classes_]

    def classes_in(self, scale: list[Any]) -> list[Any]:
        """The classes of a scale; none of numbers."""
        return scale

    def size(self, model: Any) -> str:
        """How many classes, or which intervals, in words."""
        return f"{len(model.classes_)} classes"

    def kind(self, model: Any) -> str:
        """The method and how it was read, or the estimator."""
        return f"{model.method_} ({model.reading_})"

    def rows(self, model: Any) -> list[tuple[str, str]]:
        """What `hedgerow inspect` shows of a model of this task."""
        classes = self.scale(model)
        return [
            ("classes", f"{len(classes)}: {listed(classes)}"),
            ("input", " + ".join(model.learner_.plan.steps) or "as it is"),
        ]

    def so_far(self, model: Any) -> str:
        """How good a model was until now, in words."""
        mistakes = model.mistakes_
        return f"{mistakes} mistakes in {model.seen_} labels ({mistakes / model.seen_:.1%})"

    def progress(self, model: Any) -> dict[str, float]:
        """How good a model was until now, as numbers by name."""
        return {"mistakes": model.mistakes_ / model.seen_}

    def discrepancies(self, model: Any) -> dict[str, float]:
        """How far each source is from the target; nothing of numbers."""
        return dict(model.discrepancy_)

    def label(self, value: Any) -> Any:
        """A label as it is kept."""
        return plain(value)

    def reads(self, model: Any) -> Any:
        """What labels in a file are read as: see `hedgerow.rows.wanted`."""
        return model.classes_

    def check(self, model: Any, labels: Array) -> None:
        """Refuse labels that a model could not learn; nothing changes."""
        model.check_labels(labels)

    def codes(self, model: Any, labels: Array) -> Array:
        """Labels as their codes; a class that is new has a code below MISSING."""
        return np.asarray(model.codes_of(labels))

    def doubtful(self, model: Any, labels: Array) -> Array:
        """The places of labels that a model may refuse."""
        return np.flatnonzero(self.codes(model, labels) < MISSING)

    def kept(self, labels: Array) -> Array:
        """Labels that were checked, as a batch of them is kept."""
        return labels

    def labels(self, codes: Array, classes: Sequence[Any], name: str) -> Array:
        """The inverse, for what learned them before; an error names `name`, whose codes they are."""
        if codes.max(initial=MISSING) >= len(classes) or codes.min(initial=0) < MISSING:
            raise InputError(
                f"{name}: its state names a class that it does not have ({len(classes)} are known); restore it"
            )
        return objects([None if code == MISSING else classes[code] for code in codes.tolist()])

    def empty(self, n: int) -> Array:
        """Labels of n rows that are still to be predicted."""
        return np.full(n, None, dtype=object)

    def together(self, labels: Array, classes: Array) -> Array:
        """Predicted labels as an array of the type of the classes, where all rows have one."""
        kind = classes.dtype
        if kind.kind == "O" or any(label is None for label in labels):
            return labels
        return labels.astype(str if kind.kind == "U" else kind)

    def probabilities(self, model: Any, X: Matrix) -> Array:
        """P of rows by the model as it is."""
        return np.asarray(model.predict_proba(X))

    def predict(self, model: Any, X: Matrix) -> Predicted:
        """The same with the votes of all experts."""
        if X.shape[0] == 1:  # the compiled step of one row, which makes its label cheap
            one = model.explain_one(X if is_sparse(X) else X[0])
            votes = np.array([[model.code_of(label) for label in one.votes.values()]])
            shares = np.array([list(one.probabilities.values())])
            return Predicted(np.array([model.code_of(one.label)]), shares, votes, one.weights)
        explained = model.explain(X)
        return Predicted(
            explained.probabilities.argmax(axis=1), explained.probabilities, explained.votes
        )

    def learn(self, model: Any, X: Matrix, y: Any, weights: Array | None = None) -> Predicted:
        """Rows in order, each predicted before its label is learned."""
        learned = model.explain_then_learn(X, y, weights)
        return Predicted(learned.codes, learned.probabilities, learned.votes)

    def labels_of(self, P: Array, classes: Array) -> Array:
        """The labels that P predicts."""
        return np.asarray(classes[P.argmax(axis=1)])

    def said(self, codes: Array, P: Array) -> Array:
        """What counts of predictions once their labels come: probabilities, or numbers and half widths (rows x 2)."""
        return P[np.arange(len(P)), codes]

    def measured(self, code: int, P: Any) -> dict[str, Any]:
        """How sure a prediction is: the probability of the class, or the first interval of the number."""
        return {"probability": float(P[code])}

    def columns(self, measured: dict[str, Any]) -> dict[str, float]:
        """The same, a column a number."""
        return measured

    def noted(self, P: Array) -> tuple[Array, Array, Any]:
        """What events keep of predictions: the codes, and of P one number a row, or two."""
        best = P.argmax(axis=1)
        return best, P[np.arange(len(best)), best], None

    def is_right(self, label: Any, code: int, P: Any, scale: Sequence[Any]) -> bool:
        """Whether a label is as predicted."""
        return bool(scale[code] == label)

    def decided(self, model: Any, codes: Array, P: Array) -> Array:
        """The codes to answer with: those of the lowest expected cost, where the model has costs."""
        return codes if model.costs is None else np.asarray(model.decided(P, codes))

    def code_now(self, model: Any, scale: Sequence[Any], code: int) -> int:
        """The code, for this model, of what a model with another scale predicted."""
        return int(model.code_of(scale[code]))

    def value(self, code: int, P: Any, scale: Sequence[Any]) -> Any:
        """The label predicted: a class or a number."""
        return scale[code]

    def named(self, votes: Sequence[Any], scale: Sequence[Any]) -> Sequence[Any]:
        """Votes as labels."""
        return [scale[code] for code in votes]

    def targets(self, codes: Array, K: int) -> Array:
        """Labels as targets of a regression, a column a class of the first K; NaN where there is none of these."""
        targets = np.asarray(codes[:, None] == np.arange(K), np.float64)
        targets[~targets.any(axis=1)] = np.nan
        return targets

    def is_related(self, P: Array, codes: Array) -> bool:
        """Whether P of rows is about as good as their most frequent class, or their mean, would have been."""
        mistakes = float(np.mean(P.argmax(axis=1) != codes))
        return bool(mistakes <= 1 - np.bincount(codes).max() / len(codes) + MORE_MISTAKES)

    def answer(
        self, id: str, number: int, code: int, P: list[float], scale: Sequence[Any], votes: dict[str, Any] | None,
        weights: dict[str, float] | None, repeated: bool,
    ) -> Answer:  # fmt: skip
        """A prediction of a live model."""
        shares = dict(zip(scale, P + [0.0] * (len(scale) - len(P)), strict=True))
        return Answer(id, number, scale[code], P[code], shares, votes, weights, repeated)


class NumberTask(LateLabels):
    """Numbers with intervals."""

    name = "numbers"
    field = "prediction"
    outcome = "inside"
    values = "values"
    misses = "large misses (over half the deviation of y)"
    measures = ("low", "high")
    vote_type = np.dtype(np.float64)

    def only(self, model: Any) -> OnlineTransferRegressor:
        """The model, if its task is this one."""
        if not isinstance(model, OnlineTransferRegressor):
            raise OtherTask(
                "a classifier has no intervals and no rmse_: use predict_proba, or predict_set and mistakes_ of a key; "
                "for numbers make the fleet by Fleet(sources, OnlineTransferRegressor())"
            )
        return model

    def method(self, model: Any) -> str:
        """The name of what the model does."""
        return "regression"

    def title(self, model: Any) -> str:
        """What a model is called above all else that is said of it."""
        return type(model).__name__

    def classes(self, model: Any) -> Array:
        """The classes of a model, by code; none of numbers."""
        return np.empty(0)

    def scale(self, model: Any) -> list[Any]:
        """Classes by code, or coverages, as plain values."""
        return list(model.learner_.plan.coverage)

    def classes_in(self, scale: list[Any]) -> list[Any]:
        """The classes of a scale; none of numbers."""
        return []

    def size(self, model: Any) -> str:
        """How many classes, or which intervals, in words."""
        return f"intervals of {', '.join(f'{level:.0%}' for level in model.coverage_)}"

    def kind(self, model: Any) -> str:
        """The method and how it was read, or the estimator."""
        return self.title(model)

    def rows(self, model: Any) -> list[tuple[str, str]]:
        """What `hedgerow inspect` shows of a model of this task."""
        return [("predicts", f"numbers, with {self.size(model)}")]

    def so_far(self, model: Any) -> str:
        """How good a model was until now, in words."""
        inside = ", ".join(
            f"{share:.1%} inside their {c:.0%} intervals" for c, share in model.coverage_.items()
        )
        return f"RMSE {model.rmse_:.4g} over {model.seen_} labels, {inside}"

    def progress(self, model: Any) -> dict[str, float]:
        """How good a model was until now, as numbers by name."""
        return {"rmse": model.rmse_, "coverage": next(iter(model.coverage_.values()))}

    def discrepancies(self, model: Any) -> dict[str, float]:
        """How far each source is from the target; nothing of numbers."""
        return {}

    def label(self, value: Any) -> Any:
        """A label as it is kept."""
        value = plain(value)
        try:
            return float(value) if type(value) is int else value  # 1 and 1.0 are one label
        except OverflowError as error:
            raise InputError(f"the label cannot be learned: {error}") from None

    def reads(self, model: Any) -> Any:
        """What labels in a file are read as: see `hedgerow.rows.wanted`."""
        return READ_AS_NUMBERS

    def check(self, model: Any, labels: Array) -> None:
        """Refuse labels that a model could not learn; nothing changes."""
        numbers(labels, "y", model.learner_)

    def codes(self, model: Any, labels: Array) -> Array:
        """Labels as their codes; a class that is new has a code below MISSING."""
        return numbers(labels, "y", model.learner_)

    def doubtful(self, model: Any, labels: Array) -> Array:
        """The places of labels that a model may refuse."""
        return np.arange(len(labels))

    def kept(self, labels: Array) -> Array:
        """Labels that were checked, as a batch of them is kept."""
        return numbers(labels, "y")

    def labels(self, codes: Array, classes: Sequence[Any], name: str) -> Array:
        """The inverse, for what learned them before; an error names `name`, whose codes they are."""
        return codes

    def empty(self, n: int) -> Array:
        """Labels of n rows that are still to be predicted."""
        return np.full(n, np.nan)

    def together(self, labels: Array, classes: Array) -> Array:
        """Predicted labels as an array of the type of the classes, where all rows have one."""
        return labels

    def probabilities(self, model: Any, X: Matrix) -> Array:
        """P of rows by the model as it is."""
        trace = model.trace(X)
        return np.column_stack([trace.predictions, trace.half])

    def predict(self, model: Any, X: Matrix) -> Predicted:
        """The same with the votes of all experts."""
        return self._predicted(model.trace(X))

    def learn(self, model: Any, X: Matrix, y: Any, weights: Array | None = None) -> Predicted:
        """Rows in order, each predicted before its label is learned."""
        return self._predicted(model.trace_then_learn(X, y, weights))

    def labels_of(self, P: Array, classes: Array) -> Array:
        """The labels that P predicts."""
        return P[:, 0]

    def said(self, codes: Array, P: Array) -> Array:
        """What counts of predictions once their labels come: probabilities, or numbers and half widths (rows x 2)."""
        return P[:, :2]

    def measured(self, code: int, P: Any) -> dict[str, Any]:
        """How sure a prediction is: the probability of the class, or the first interval of the number."""
        value = float(P[0])
        half = float(P[1])
        return {"interval": (value - half, value + half)}

    def columns(self, measured: dict[str, Any]) -> dict[str, float]:
        """The same, a column a number."""
        return dict(zip(self.measures, measured["interval"], strict=True))

    def noted(self, P: Array) -> tuple[Array, Array, Any]:
        """What events keep of predictions: the codes, and of P one number a row, or two."""
        return np.zeros(len(P), int), P[:, 0], P[:, 1]

    def is_right(self, label: Any, code: int, P: Any, scale: Sequence[Any]) -> bool:
        """Whether a label is as predicted."""
        return bool(abs(label - P[0]) <= P[1])

    def decided(self, model: Any, codes: Array, P: Array) -> Array:
        """The codes to answer with."""
        return codes

    def code_now(self, model: Any, scale: Sequence[Any], code: int) -> int:
        """The code, for this model, of what a model with another scale predicted."""
        return code

    def value(self, code: int, P: Any, scale: Sequence[Any]) -> Any:
        """The label predicted: a class or a number."""
        return float(P[0])

    def named(self, votes: Sequence[Any], scale: Sequence[Any]) -> Sequence[Any]:
        """Votes as labels."""
        return votes

    def targets(self, codes: Array, K: int) -> Array:
        """Labels as targets of a regression, in units of their deviation; NaN where there is none."""
        known = codes[np.isfinite(codes)]
        spread = known.std() if len(known) else 0.0
        return np.asarray((codes / (spread or 1.0))[:, None])

    def is_related(self, P: Array, codes: Array) -> bool:
        """Whether P of rows is about as good as their most frequent class, or their mean, would have been."""
        return bool(np.mean((P[:, 0] - codes) ** 2) <= MORE_VARIANCE * codes.var())

    def answer(
        self, id: str, number: int, code: int, P: list[float], scale: Sequence[Any], votes: dict[str, Any] | None,
        weights: dict[str, float] | None, repeated: bool,
    ) -> Answer:  # fmt: skip
        """A prediction of a live model."""
        value = P[0]
        intervals = {
            level: (value - half, value + half) for level, half in zip(scale, P[1:], strict=True)
        }
        return NumberAnswer(id, number, value, math.nan, {}, votes, weights, repeated, intervals)

    @staticmethod
    def _predicted(trace: Any) -> Predicted:
        P = np.column_stack([trace.predictions, trace.half])
        return Predicted(np.zeros(len(P), int), P, trace.experts)


CLASSES = ClassTask()
NUMBERS = NumberTask()
Task = ClassTask | NumberTask
TASKS: dict[str, Task] = {CLASSES.name: CLASSES, NUMBERS.name: NUMBERS}


def task_of(model: Any) -> Task:
    """The task of a model."""
    return NUMBERS if isinstance(model, OnlineTransferRegressor) else CLASSES


# -- a model as a card of HTML in a notebook, and as a figure ----------------------------------------------------------

LEAST = 3  # experts that get a bar: those that count, at least three and at most ten
MOST = 10
SMALL = 0.001
DRAWN = 12  # experts in a figure


@dataclass(frozen=True)
class Shown:
    """Something that a notebook shows as HTML.

    >>> Shown("<b>x</b>")._repr_html_()
    '<b>x</b>'
    """

    html: str

    def _repr_html_(self) -> str:
        return self.html


def html(clf: OnlineTransferEstimator) -> str:
    """Who is trusted, how far the sources are, mistakes and bound, in the colours of the notebook."""
    weights = _largest_first(clf.weights_)
    shown = min(max(sum(weight >= SMALL for _, weight in weights), LEAST), MOST)
    rest = weights[shown:]
    more = (
        f'<p class="muted">and {len(rest)} more, {sum(w for _, w in rest):.1%} together</p>'
        if rest
        else ""
    )
    text = [_head(clf), "<h4>Experts and their weights</h4>", bars(weights[:shown], "{:.1%}"), more]
    if apart := _apart(clf):
        text += ["<h4>Sources: discrepancy to the target</h4>", bars(apart, "{:.3g}", other=True)]
    text.append('<p class="muted">clf.plot() draws this, clf.diagram() shows the parameters.</p>')
    style = (resources.files("hedgerow") / "card.css").read_text(encoding="utf-8")
    return f'<style>\n{style}</style><div class="hedgerow-card">{"".join(text)}</div>'


def so_far(model: OnlineTransferEstimator) -> str:
    """How good a model was until now; empty before the first label."""
    if not model.seen_:
        return ""
    return task_of(model).so_far(model)


def _apart(model: OnlineTransferEstimator) -> list[tuple[str, float]]:
    """The discrepancies of the sources; of numbers there are none."""
    return list(task_of(model).discrepancies(model).items())


def _largest_first(values: NamedValues) -> list[tuple[str, float]]:
    return sorted(values.items(), key=lambda pair: -pair[1])


def _head(clf: OnlineTransferEstimator) -> str:
    task = task_of(clf)
    size = f"{clf.n_features_in_} features, {len(clf.source_names_)} sources, {task.size(clf)}"
    head = f"<p><b>{escape(task.title(clf))}</b> <span class='muted'>{size}"
    score = so_far(clf)
    if not score:
        return f"{head}; no label learned yet</span></p>"
    bound = f"guarantee: at most {clf.bound_:.1f}, on {escape(clf.guarantee_)}"
    return f"{head}</span></p><p>{score}; <span class='muted'>{bound}</span></p>"


def bars(pairs: Sequence[tuple[str, float]], form: str, other: bool = False) -> str:
    """Names, bars as long as the numbers, the numbers."""
    top = max((abs(value) for _, value in pairs), default=0.0) or 1.0
    kind = ' class="other"' if other else ""
    rows = (
        f'<tr><td>{escape(str(name))}</td><td class="bar">'
        f'<svg viewBox="0 0 100 8" preserveAspectRatio="none" height="9" role="presentation">'
        f'<rect{kind} width="{100 * abs(value) / top:.2f}" height="8"/></svg></td>'
        f'<td class="number">{form.format(value)}</td></tr>'
        for name, value in pairs
    )
    return f"<table>{''.join(rows)}</table>"


# -- a figure ----------------------------------------------------------------------------------------------------------


def plot(clf: OnlineTransferEstimator) -> Any:
    """Two axes: weights of the experts, largest first, and the discrepancy of each source; of a regressor the first."""
    pyplot = require("matplotlib.pyplot", "lab")
    task = task_of(clf)
    n = 1 + (task is CLASSES)
    figure, axes = pyplot.subplots(1, n, figsize=(5 * n, 4), layout="constrained", squeeze=False)
    axes = axes[0]
    pairs = (_largest_first(clf.weights_)[:DRAWN], _apart(clf))
    for ax, values, label in zip(
        axes, pairs, ("weight", "discrepancy to the target"), strict=False
    ):
        ax.barh([name for name, _ in values][::-1], [value for _, value in values][::-1])
        ax.set_xlabel(label)
        ax.spines[["top", "right"]].set_visible(False)
    score = f", {so_far(clf)}, bound {clf.bound_:.1f}" if clf.seen_ else ""
    figure.suptitle(task.title(clf) + score, wrap=True)
    return axes
