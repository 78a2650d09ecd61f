"""OnlineTransferClassifier: scikit-learn's verbs and river's verbs over one learner."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin

from hedgerow.align import Aligner
from hedgerow.core.arrays import LARGEST, Array, Matrix, rows_from
from hedgerow.core.errors import InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.labels import MISSING, Codes, as_labels, plain
from hedgerow.core.linalg import one_blas_thread
from hedgerow.estimator import input_rows as rows
from hedgerow.estimator import inputs as door
from hedgerow.estimator import table_rows as tables
from hedgerow.estimator.offline import Offline
from hedgerow.heads import Head
from hedgerow.learner import OnlineLearner, Prediction, Trace
from hedgerow.methods import Reading
from hedgerow.mix import Mixer


# Predictions with their reasons: of one row, and of a block.
class Explanation(NamedTuple):
    """One prediction with its reasons: label, probabilities by label, and each expert's own label and weight."""

    label: Any
    probabilities: dict[Any, float]
    votes: dict[str, Any]
    weights: dict[str, float]


class Explanations:
    """The predictions of a block, each made before its label was learned, with their reasons; a row an instance.

    `classes` are those known at the end of the block: one met within it has probability 0 until then.
    """

    def __init__(self, classes: Array, traces: Sequence[Trace], learner: OnlineLearner) -> None:
        self.classes, self._traces, self._learner = classes, traces, learner

    @property
    def codes(self) -> Array:
        """The place of each prediction in `classes`."""
        return np.concatenate([trace.predictions for trace in self._traces] or [np.empty(0, dtype=np.int64)])

    @property
    def labels(self) -> Array:
        """The predictions."""
        return np.asarray(self.classes[self.codes])

    @property
    def probabilities(self) -> Array:
        """A column a class."""
        parts = [self._learner.probabilities(trace.scores) for trace in self._traces]
        K = len(self.classes)
        padded = [np.pad(part, [(0, 0), (0, K - part.shape[1])]) if part.shape[1] < K else part for part in parts]
        return np.concatenate(padded) if padded else np.empty((0, K))

    @property
    def votes(self) -> Array:
        """The place in `classes` of what each expert says; a column an expert."""
        return np.concatenate([t.votes for t in self._traces] or [np.empty((0, len(self._learner.expert_names)), int)])

    @property
    def weights(self) -> Array:
        """Who was trusted; a column an expert."""
        return np.concatenate([t.weights for t in self._traces] or [np.empty((0, len(self._learner.expert_names)))])


PREDICTED = 1024  # rows that are predicted before a signal is looked at


class OnlineTransferClassifier(ClassifierMixin, Offline):  # type: ignore[misc]
    """Labelled sources in advance, a target that streams: predict, see the label, learn, with every instance.

    A fitted model may be used by several threads: every call sees it before or after every other, never in between.

    Parameters
    ----------
    method : a name of `hedgerow.METHODS`: hedgerow (ours, the default), hedgerow-linear (its light sibling), and the
        paper's: pa, paio, homotl-1, homotl-2, homotlms, oddm-fixed, oddm. A method reads some of the options below; one
        that was set and that it does not read is refused.
    reading : "general" (our defaults for any data), "authors" (the released code), "paper" (the text as printed) or
        "table" (what reproduces the published table): an answer to each place where paper and code differ. A `Reading`
        has other answers: `reading=hedgerow.reading_of("authors", lam=1.0)`.
    aligner, head, mixer : names of `align.ALIGNERS`, `heads.HEADS`, `mix.MIXERS`, or objects. None is the method's own.
    dim : upper limit of the dimension of an aligned space (None: 100); `dim_` says what the data allowed.
    rank : upper limit of the dimension of our own learner's input: a leaner, faster model at some price in mistakes.
    size : "full" (None) or "small", a twentieth of the bytes, for thousands of targets, at some price in mistakes:
        bounds on landmarks, directions and kept rows of our own learner (`hedgerow.ridge.plan`).
    C : aggressiveness of PA-I, PA-II and AROW (None: 5).
    mu : strength of the refresh, A <- (I + mu sum_k g_k g_k^T)^{-1} A (None: 1).
    beta : Hedge's discount in (0, 1).
    horizon : T, the expected number of labels: beta = sqrt T/(sqrt T + sqrt ln N). With neither, the anytime rule is
        used: the labels so far in place of T (`hedgerow.mix.Hedge`).
    preprocess : names of `hedgerow.core.preprocess` steps, e.g. ("row-minmax", "unit") or "zscore+unit"; () for none.
        "table" asks for the encoder of columns that are no numbers, or have gaps; it is chosen by itself where a table
        has such columns, or domains have different ones (`hedgerow.tables`).
    classes : the labels that can occur. If given, another label is refused; if None, a class first met in the stream
        is learned, and stands last in `classes_`.
    max_classes : upper limit of the number of classes, since memory grows with it. None allows 1,000 more than
        the sources have, and sources of up to 10,000.
    dtype : "float64", "float32" or None (as the data comes). Our own learner computes in float64 and does not read it.
    random_state : seed for parts that draw at random (landmarks; nothing in the paper's methods). None is 0.
    table : what to know of a table's columns: a dict with names under "drop", "keep", "id", "time" and "text".

    Attributes
    ----------
    table_ (the encoder, or None for rows of numbers),
    classes_, source_names_, expert_names_, dim_, info_, learner_, constants_, weights_, discrepancy_, mistakes_, seen_,
    bound_, guarantee_, hedge_loss_, drift_

    Examples
    --------
    >>> from hedgerow import OnlineTransferClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 5)); y = np.where(X[:, 0] > 0, "up", "down")
    >>> domain = np.r_[np.zeros(30), np.ones(30), -np.ones(20)]   # two sources, then unlabelled target rows
    >>> clf = OnlineTransferClassifier(method="oddm").fit(X, y, sample_domain=domain)
    >>> clf.predict(X[60:62]).shape, len(clf.weights_)
    ((2,), 4)
    >>> clf.learn_one(X[60], "up").seen_
    1
    """

    # what a pipeline hands over unasked where metadata are routed: skada's pipelines work without set_fit_request
    __metadata_request__fit = MappingProxyType({"sample_domain": True})
    __metadata_request__predict = MappingProxyType({"sample_domain": True, "allow_source": True})
    __metadata_request__predict_proba = __metadata_request__predict
    __metadata_request__decision_function = __metadata_request__predict
    __metadata_request__score = __metadata_request__predict

    def __init__(
        self,
        method: str = "hedgerow",
        *,
        reading: str | Reading = "general",
        aligner: str | Aligner | None = None,
        head: str | Head | None = None,
        mixer: str | Mixer | None = None,
        dim: int | None = None,
        rank: int | None = None,
        size: str | None = None,
        C: float | None = None,
        mu: float | None = None,
        beta: float | None = None,
        horizon: float | None = None,
        preprocess: str | Sequence[str] | None = None,
        classes: Sequence[Hashable] | None = None,
        max_classes: int | None = None,
        dtype: str | None = None,
        random_state: int | None = None,
        table: Mapping[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.reading = reading
        self.aligner = aligner
        self.head = head
        self.mixer = mixer
        self.dim = dim
        self.rank = rank
        self.size = size
        self.C = C
        self.mu = mu
        self.beta = beta
        self.horizon = horizon
        self.preprocess = preprocess
        self.classes = classes
        self.max_classes = max_classes
        self.dtype = dtype
        self.random_state = random_state
        self.table = table

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.poor_score = self.method == "pa"  # it has no use for sources: `fit` teaches it nothing
        return tags

    # -- predicting ---------------------------------------------------------------------------------------------

    def decision_function(self, X: Matrix, sample_domain: Any = None, *, allow_source: bool = False) -> Array:
        """Combined scores: a column a class, or for two classes one number, positive for `classes_[1]`.

        `sample_domain` and `allow_source` as in `predict`.
        """
        with self._fitted:
            scores = self._scores(X, sample_domain, allow_source)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Matrix, sample_domain: Any = None, *, allow_source: bool = False) -> Array:
        """The most likely class of each row by the model as it is; nothing is learned.

        Every row is taken for one of the target. A row that `sample_domain` says is a source's (>= 0) is refused unless
        `allow_source`.
        """
        with self._fitted:
            return np.asarray(self.classes_[self._scores(X, sample_domain, allow_source).argmax(axis=1)])

    def predict_proba(self, X: Matrix, sample_domain: Any = None, *, allow_source: bool = False) -> Array:
        """A probability a class: the softmax of the scores, or the shares where they are on the simplex already.

        `sample_domain` and `allow_source` as in `predict`.
        """
        with self._fitted:
            return self.learner_.probabilities(self._scores(X, sample_domain, allow_source))

    def score(
        self, X: Matrix, y: Any, sample_weight: Any = None, *, sample_domain: Any = None, allow_source: bool = False
    ) -> float:
        """The share of rows whose label is predicted; `sample_domain` and `allow_source` as in `predict`."""
        from sklearn.metrics import accuracy_score

        said = self.predict(X, sample_domain, allow_source=allow_source)
        return float(accuracy_score(y, said, sample_weight=sample_weight))

    def predict_one(self, x: Any) -> Any:
        """The most likely class of one instance: a 1-d array, or a mapping from feature names to values."""
        with self._fitted:
            return plain(self.classes_[self._predict_row(x).code])

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Class -> probability for one instance."""
        with self._fitted:
            return self._shares(self._predict_row(x))

    def explain_one(self, x: Any) -> Explanation:
        """The prediction for one instance, its probabilities, and what each expert says and weighs."""
        with self._fitted:
            found = self._predict_row(x)
            names, labels = self.expert_names_, self.classes_[found.votes]
            return Explanation(
                plain(self.classes_[found.code]),
                self._shares(found),
                {name: plain(label) for name, label in zip(names, labels, strict=True)},
                dict(zip(names, found.weights.tolist(), strict=True)),
            )

    def _predict_row(self, x: Any) -> Prediction:
        row = self._row(x)
        self._need_a_class()
        return self.learner_.predict_row(row) if row.ndim == 1 else self.learner_.predict_sparse_row(row)

    def _shares(self, found: Prediction) -> dict[Any, float]:
        p = self.learner_.probabilities(found.scores[None])[0]
        return {plain(label): float(v) for label, v in zip(self.classes_, p, strict=True)}

    def _scores(self, X: Matrix, sample_domain: Any = None, allow_source: bool = False) -> Array:
        X = self._matrix(X, reset=False)
        door.check_target_rows(sample_domain, X.shape[0], allow_source)
        self._need_a_class()
        parts = []
        for a in range(0, max(X.shape[0], 1), PREDICTED):
            with uninterrupted(), one_blas_thread:
                parts.append(self.learner_.scores(rows_from(X, a, min(a + PREDICTED, X.shape[0]))))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _need_a_class(self) -> None:
        if not len(self.classes_):
            raise InputError("no class is known yet: learn a label first, or give classes=[...]")

    # -- learning -----------------------------------------------------------------------------------------------

    def partial_fit(
        self, X: Matrix, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> OnlineTransferClassifier:
        """Learn labelled target rows in order. Before any `fit` it starts a target-only learner (there is no source).

        Of a row whose label is None or NaN our own learner uses the row itself, others nothing. `classes` lists the
        classes for such a cold start.
        `sample_weight` says how much each label counts for the classifiers and the class means; a weight of 0 is no
        label. Mistakes and bounds count every label as one.
        """
        cold = not hasattr(self, "learner_")
        with self._restored_on_error() if cold else self._fitted:
            table = tables.table_of(self.get_params(deep=False), X, "X") if cold else None
            if cold:
                self.table_ = None
            X = self._matrix(X, reset=cold) if table is None else self._encoded(table, np.full(len(table), -1))
            labels, weight = door.weighted_labels(y, sample_weight, X.shape[0])
            if cold:
                self._cold_start(X, labels, classes)
            self._learn(X, labels, weight)
        return self

    def learn_one(self, x: Any, y: Any, weight: float = 1.0) -> OnlineTransferClassifier:
        """Learn one target instance. Of one without a label (None, NaN) our own learner uses the row, others nothing.

        A late label is learned the same way: keep the x, and call this when the label arrives. `weight` says how much
        the label counts; see `partial_fit`.
        """
        if not hasattr(self, "learner_"):
            return self.partial_fit(rows.first_row(x), as_labels([y], "y"), sample_weight=weight)
        with self._fitted:
            code, row = self._codes.code(y), self._row(x)
            weight = 1.0 if type(weight) is float and weight == 1.0 else door.weight(weight)
            if code == MISSING and not self.learner_.learns_unlabelled:
                return self
            if row.ndim == 1 and (code >= 0 or (code == MISSING and self.learner_.n_classes)):
                self.learner_.learn_row(row, code, weight)
            else:
                label = np.empty(1, dtype=object)
                label[0] = y
                self._learn(row if row.ndim == 2 else row[None], *door.weighted_labels(label, weight, 1))
        return self

    def predict_then_learn(self, X: Matrix, y: Any, sample_weight: Any = None) -> Array:
        """The prequential block path: the prediction made for each row before its label was learned.

        `sample_weight` as in `partial_fit`.
        """
        return self.explain_then_learn(X, y, sample_weight).labels

    def explain_then_learn(self, X: Matrix, y: Any, sample_weight: Any = None) -> Explanations:
        """As `predict_then_learn`, with the probabilities, votes and weights of every prediction."""
        with self._fitted:
            X = self._matrix(X, reset=False)
            labels, weight = door.weighted_labels(y, sample_weight, X.shape[0])
            self._need_a_class()
            traces = self._learn(X, labels, weight)  # which may bring classes
            return Explanations(self.classes_, traces, self.learner_)

    def _learn(self, X: Matrix, labels: Array, weight: Array | None) -> list[Trace]:
        """Rows in order, in blocks; a class met for the first time gets a block of its own, predicted without it."""
        table = self._codes_with(labels)
        codes = table.of(labels)
        if not len(table.classes):  # no label yet, and none here
            return []
        first = sorted(int(np.flatnonzero(codes == k)[0]) for k in range(len(self._codes.classes), len(table.classes)))
        traces, known = [], self.learner_.n_classes
        edges = sorted({0, X.shape[0], *first, *(i + 1 for i in first)})
        for a, b in itertools.pairwise(edges):
            part, block = None if weight is None else weight[a:b], rows_from(X, a, b)
            if a in first:
                traces.append(self._learn_new_class(Codes(table.classes[: known + 1]), block, codes[a:b], part))
            else:
                traces.append(self.learner_.run(block, codes[a:b], None, part))
            known = self.learner_.n_classes
        return traces

    def _codes_with(self, labels: Array) -> Codes:
        """The table of classes with those that are new among these labels; refused if they cannot be."""
        table = self._codes
        if not (table.of(labels) == Codes.NEW).any():
            return table
        if self.classes is not None:
            self._known(table, labels, "the stream")
        new = table.unseen(labels)
        moments = [self.learner_.source(i) for i in range(len(self.source_names_))]
        door.check_new_classes(self.max_classes, door.classes_met(moments), len(table.classes), new)
        return table.grow(new)

    def check_labels(self, y: Any) -> None:
        """Refuse labels that could not be learned; nothing changes."""
        with self._fitted:
            self._codes_with(as_labels(y, "y"))

    def _learn_new_class(self, codes: Codes, X: Matrix, y: Array, weight: Array | None) -> Trace:
        """The first row of a class, predicted without it, and room for the class: both or neither."""
        with uninterrupted():
            learner = self.learner_.copy()  # so that an error cannot leave the class without its row
            known = learner.n_classes
            learner.grow(known + 1)
            trace = learner.run(X, y, known or None, weight)
            self.learner_, self._codes, self.classes_ = learner, codes, codes.classes
        return trace

    # -- checking what users give -------------------------------------------------------------------------------

    def as_row(self, x: Any) -> Matrix:
        """One instance as the model reads it: a 1-d array, or a sparse 1 x m matrix; refused if it cannot be used."""
        with self._fitted:
            return self._row(x)

    def as_matrix(self, X: Matrix) -> Matrix:
        """Rows as the model reads them; refused if they cannot be used."""
        with self._fitted:
            return self._matrix(X, reset=False)

    def code_of(self, label: Any) -> int:
        """The place of a label in `classes_`; below 0 if it is missing or not there."""
        return self._codes.code(label)

    def codes_of(self, labels: Sequence[Any] | Array) -> Array:
        """The places of labels in `classes_`; below 0 where one is missing or not there."""
        return self._codes.of(as_labels(labels, "y"))

    def _matrix(self, X: Matrix, reset: bool) -> Matrix:
        if not reset and self.table_ is not None:
            X = tables.matrix(self.table_, X)
        # NaN are looked for by a product, whose threads would still be busy in the step after it
        with uninterrupted(), one_blas_thread:
            return rows.matrix(self, X, reset, door.given_dtype(self.dtype) if reset else self.learner_.dtype)

    def _row(self, x: Any) -> Matrix:
        """One instance, a 1-d array or a sparse 1 x m matrix, checked without scikit-learn's overhead."""
        dtype = self.learner_.dtype
        plain = type(x) is np.ndarray and x.shape == (self.n_features_in_,) and x.dtype == dtype
        if plain and x.flags.c_contiguous and np.vdot(x, x) <= LARGEST[dtype] ** 2:
            return x  # nothing about it is to be checked or changed
        if self.table_ is not None:
            x = tables.row(self.table_, x)
        names = getattr(self, "feature_names_in_", None)
        return rows.one_row(x, self.n_features_in_, names, dtype, self.learner_.gaps)
