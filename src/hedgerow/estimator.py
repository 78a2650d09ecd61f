"""OnlineTransferClassifier: scikit-learn's verbs and river's verbs over one learner; classes and labels.

What does not depend on the kind of target is in `hedgerow.base`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields
from html import escape
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from hedgerow.align import Aligner
from hedgerow.base import ClassifierMixin, Fitted, NamedValues, OnlineTransferEstimator
from hedgerow.contributions import Contributions, summary
from hedgerow.core.arrays import DENSE_LIMIT, Array, Matrix, cast, check_finite, rows_from
from hedgerow.core.domains import Domain, Frame, same_columns
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.source_rows import LabelledSource
from hedgerow.core.values import MISSING, Codes, as_labels, classes_of, is_missing, objects, plain
from hedgerow.coverage import COUNTS, LEVELS, QUANTILE, coverages, level_of, sets
from hedgerow.heads import Head
from hedgerow.inputs import (
    Inputs,
    Labelled,
    all_classes,
    check_classes,
    check_new_classes,
    check_sources,
    check_target_rows,
    check_targets,
    first_row,
    fixed_classes,
    one_weight,
    weighted_labels,
)
from hedgerow.learner import OnlineLearner, Prediction, Trace
from hedgerow.methods import AlignFit, Reading, Training, build, check_merges, choose, fit_aligner, reading_of
from hedgerow.mix import Mixer

__all__ = ["Explanation", "Explanations", "NamedValues", "OnlineTransferClassifier", "OnlineTransferEstimator"]

T = TypeVar("T")
PREDICTED = 1024  # rows that are predicted before a signal is looked at
SMALLEST = 1e-9  # a probability below it counts as it in log-odds: some methods say 0


class Explanation(NamedTuple):
    """One prediction with its reasons.

    Attributes
    ----------
    label : Hashable
        The prediction.
    probabilities : dict
        Class -> probability.
    votes : dict
        Expert -> the class that it names for itself.
    weights : dict
        Expert -> how much it is trusted.
    contributions : Contributions or None
        What each column added to the log-odds of the prediction, where it was asked for.
    """

    label: Hashable
    probabilities: dict[Hashable, float]
    votes: dict[str, Hashable]
    weights: dict[str, float]
    contributions: Contributions | None = None

    def __str__(self) -> str:
        prediction = f"{self.label}, probability {self.probabilities[self.label]:.3g}"
        return summary(prediction, self.votes, self.weights, self.contributions)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self._replace(contributions=None)))}</pre>" + (
            "" if self.contributions is None else self.contributions._repr_html_()
        )


class Explanations:
    """The predictions of a block, each made before its label was learned, with their reasons; a row an instance.

    Attributes
    ----------
    classes : array
        Those known at the end of the block: one met within it has probability 0 until then.
    labels, codes : arrays of shape (rows,)
        The predictions, and their places in `classes`.
    probabilities : array of shape (rows, classes)
        A column a class.
    votes, weights : arrays of shape (rows, experts)
        The place in `classes` of what each expert names, and how much it was trusted.
    """

    def __init__(self, classes: Array, traces: Sequence[Trace], learner: OnlineLearner) -> None:
        N = len(learner.expert_names)
        none = Trace(np.empty((0, len(classes))), np.empty((0, N)), np.empty((0, N), dtype=np.int64))
        self.classes, self._traces, self._learner = classes, traces or [none], learner

    @property
    def codes(self) -> Array:
        """The place of each prediction in `classes`."""
        return np.concatenate([trace.predictions for trace in self._traces])

    @property
    def labels(self) -> Array:
        """The predictions."""
        return np.asarray(self.classes[self.codes])

    @property
    def probabilities(self) -> Array:
        """A column a class."""
        parts = [self._learner.probabilities(trace.scores) for trace in self._traces]
        return np.concatenate([np.pad(part, [(0, 0), (0, len(self.classes) - part.shape[1])]) for part in parts])

    @property
    def votes(self) -> Array:
        """The place in `classes` of what each expert says; a column an expert."""
        return np.concatenate([trace.votes for trace in self._traces])

    @property
    def weights(self) -> Array:
        """How much each expert was trusted; a column an expert."""
        return np.concatenate([trace.weights for trace in self._traces])


class OnlineTransferClassifier(ClassifierMixin, OnlineTransferEstimator):
    r"""Labelled sources in advance, a target that streams: predict, see the label, learn, with every instance.

    Use it where rows of other domains have labels now and those of the target come one after the other, each label
    after its prediction ("test-then-train"). Where all labels of the target are there already, an ordinary classifier
    serves better; where several targets share their sources, see `hedgerow.fleet.Fleet`.

    The prediction is that of a mixture of experts, of which some know a source only and others learn from every label:

    .. math:: \hat y_t = \arg\max_k \sum_i p_{t,i} f_{t,i,k}(x_t)

    The weights :math:`p_t` follow their mistakes, with a bound on those of the mixture (`bound_`, `guarantee_`). A
    fitted model may be used by several threads: every call sees it before or after every other, never in between.

    Parameters
    ----------
    method : str
        A name of `hedgerow.METHODS`: hedgerow (ours, the default), hedgerow-linear (its light sibling), and the
        paper's: pa, paio, homotl-1, homotl-2, homotlms, oddm-fixed, oddm. A method reads some of the options below; one
        that was set and that it does not read is refused.
    reading : str or Reading
        "general" (our defaults for any data), "authors" (the released code), "paper" (the text as printed) or
        "table" (what reproduces the published table): an answer to each place where paper and code differ. A `Reading`
        has other answers: `reading=hedgerow.reading_of("authors", lam=1.0)`.
    aligner, head, mixer : str, object or None
        Names of `align.ALIGNERS`, `heads.HEADS`, `mix.MIXERS`, or objects. None is the method's own.
    dim : int or None
        Upper limit of the dimension of an aligned space (None: 100); `dim_` says what the data allowed.
    rank : int or None
        Upper limit of the dimension of our own learner's input: a leaner, faster model at some price in mistakes.
    size : str or None
        "full" (None) or "small", a twentieth of the bytes, for thousands of targets, at some price in mistakes:
        bounds on landmarks, directions and kept rows of our own learner (`hedgerow.ridge.plan`).
    trees : bool or None
        Whether our own learner has trees of the sources among its heads. None: where columns and classes are few and
        the columns differ in kind, as in a table; `explain` and `weights_` name them "boost" and "leaves".
    C : float or None
        Aggressiveness of PA-I, PA-II and AROW (None: 5).
    mu : float or None
        Strength of the refresh, :math:`A \leftarrow (I + \mu \sum_k g_k g_k^\top)^{-1} A` (None: 1).
    beta : float or None
        Hedge's discount in (0, 1).
    horizon : float or None
        T, the expected number of labels: :math:`\beta = \sqrt T/(\sqrt T + \sqrt{\ln N})`. With neither, the anytime
        rule is used: the labels so far in place of T (`hedgerow.mix.Hedge`).
    preprocess : str, sequence of str or None
        Names of `hedgerow.core.preprocess` steps, e.g. ("row-minmax", "unit") or "zscore+unit"; () for none.
        "table" asks for the encoder of columns that are no numbers, or have gaps; it is chosen by itself where a table
        has such columns, or domains have different ones (`hedgerow.tables`).
    classes : sequence or None
        The labels that can occur. If given, another label is refused; if None, a class first met in the stream
        is learned, and stands last in `classes_`. Text is compared character by character: an é that is composed and
        one that is not are two classes, so normalise such labels first (`unicodedata.normalize`).
    max_classes : int or None
        Upper limit of the number of classes, since memory grows with it. None allows 1,000 more than
        the sources have, and sources of up to 10,000, and refuses labels that look like numbers to be predicted.
    dtype : str or None
        "float64", "float32" or None (as the data comes). Our own learner computes in float64 and does not read it.
    random_state : int or None
        Seed for parts that draw at random (landmarks; nothing in the paper's methods). None is 0.
    table : mapping or None
        What to know of a table's columns: a dict with names under "drop", "keep", "id", "time" and "text".
    coverage : float, sequence of float or None
        The share of labels that the sets of `predict_set` are to contain, between 0 and 1; several have a tracker each.
        None tracks no sets.

    Attributes
    ----------
    classes_ : array
        The labels, in the order of the columns of `predict_proba`.
    weights_ : NamedValues
        Expert -> how much it is trusted.
    discrepancy_ : NamedValues
        Source -> how far it is from the target.
    mistakes_, seen_ : int
        Mistakes and labels so far.
    coverage_, set_size_ : dict
        Coverage -> the share of labels that were in their set so far, and the mean number of classes in a set.
    bound_, guarantee_ : float, str
        A number, and what it bounds.
    drift_ : Drift
        Whether the target seems to have changed.
    expert_names_, source_names_, dim_, info_, hedge_loss_, learner_, constants_, table_

    References
    ----------
    Du, Wang, Zhao, Zhang: Homogeneous online transfer learning with online distribution discrepancy minimization
    (ECAI 2020).

    Examples
    --------
    >>> from hedgerow import OnlineTransferClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 5)); y = np.where(X[:, 0] > 0, "up", "down")
    >>> domain = np.r_[np.zeros(30), np.ones(30), -np.ones(20)]   # two sources, then unlabelled target rows
    >>> clf = OnlineTransferClassifier(method="oddm").fit(X, y, sample_domain=domain)
    >>> clf.predict(X[60:62]).shape, list(clf.weights_)
    ((2,), ['source 0', 'source 1', 'target via 0', 'target via 1'])
    >>> clf.learn_one(X[60], "up").seen_
    1
    """

    __metadata_request__predict_proba = MappingProxyType({"sample_domain": True, "allow_source": True})
    __metadata_request__decision_function = __metadata_request__predict_proba

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
        trees: bool | None = None,
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
        coverage: float | Sequence[float] | None = None,
    ) -> None:
        self.method, self.reading, self.preprocess = method, reading, preprocess
        self.aligner, self.head, self.mixer = aligner, head, mixer
        self.dim, self.rank, self.size, self.trees = dim, rank, size, trees
        self.C, self.mu, self.beta, self.horizon = C, mu, beta, horizon
        self.classes, self.max_classes = classes, max_classes
        self.dtype, self.random_state, self.table, self.coverage = dtype, random_state, table, coverage

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.poor_score = self.method == "pa"  # it has no use for sources: `fit` teaches it nothing
        return tags

    # -- the offline stage --------------------------------------------------------------------------------------------

    def fit_partitions(self, sources: Sequence[LabelledSource], warmup: Domain | None = None) -> Self:
        """Start from sources whose rows are elsewhere: they are asked for statistics, in several passes.

        The result is that of `fit_domains`, up to rounding. `hedgerow.dask.fit` opens such sources.

        Parameters
        ----------
        sources : sequence of LabelledSource
            See `hedgerow.core.source_rows`.
        warmup : Domain or None
            Unlabelled rows of the target, in memory.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For a method that needs the rows themselves, and for what `fit_domains` refuses.
        """
        if warmup is not None and isinstance(warmup.X, Frame):
            raise InputError(
                f"domain {warmup.name!r} has columns that are no numbers, or gaps; sources that are not in memory are "
                "numbers, so encode all of them first, or use --engine local"
            )
        names = list(sources[0].feature_names)
        self.check_partitions(len(names))
        first = Domain(sources[0].name, np.zeros((1, len(names))), feature_names=names)
        target = None if warmup is None else same_columns([first, warmup])[1]
        dtype = np.result_type(*(source.dtype for source in sources), *([] if target is None else [target.X.dtype]))
        rows = np.empty((0, len(names)), dtype) if target is None else cast(target.X, dtype)
        check_finite(rows, f"domain {'' if target is None else target.name!r}", names)
        with self._restored_on_error():
            self._start(Inputs(len(names), np.array(names, dtype=object)), sources, rows)
        return self

    def check_partitions(self, width: int) -> None:
        """Before anything is read: the options can be used, the method needs no rows, and a Gram matrix has room."""
        params = self.get_params(deep=False)
        choose(params)
        check_merges(params["method"])
        if 8 * width * width > DENSE_LIMIT:
            raise InputError(
                f"{width} features: a Gram matrix of them takes {8 * width * width / 2**30:.1f} GiB; choose features, "
                "or bring them to fewer with hedgerow.dask.align and WhitenedPCA(sketch=...)"
            )

    def _start(
        self,
        inputs: Inputs,
        sources: Sequence[Labelled] | Sequence[LabelledSource],
        warmup: Matrix,
        positions: Sequence[Array] = (),
        align: AlignFit = fit_aligner,
        codes: Codes | None = None,
    ) -> None:
        """Every form of `fit`, and a cold start, whose codes are known: one `Training`, one build."""
        method, options = choose(self.get_params(deep=False), inputs.encoder)
        names = check_sources(sources)
        codes = self._codes_of(sources) if codes is None else codes
        rows = [source.rows(codes.classes, warmup.dtype) for source in sources]
        levels = () if self.coverage is None else coverages(self.coverage)
        spans = None if inputs.encoder is None else inputs.encoder.spans
        K = len(codes.classes)
        built = build(method, Training(names, rows, warmup, K, options, positions, align, spans=spans))
        learner = built.learner.with_sets(levels) if levels else built.learner
        self._install(learner, codes, inputs, names, built.infos)

    # -- classes ------------------------------------------------------------------------------------------------------

    classes_ = Fitted[Array]("_codes.classes", "The labels, in the order of `predict_proba`; one met later is last.")

    def code_of(self, label: Hashable) -> int:
        """The place of a label in `classes_`; below 0 if it is missing or not there."""
        return self._codes.code(label)

    def codes_of(self, labels: Sequence[Any] | Array) -> Array:
        """The places of labels in `classes_`; below 0 where one is missing or not there."""
        return self._codes.of(as_labels(labels, "y"))

    def check_labels(self, y: Any) -> None:
        """Refuse labels that could not be learned; nothing changes."""
        with self._fitted:
            self._codes_with(as_labels(y, "y"))

    def _codes_of(self, sources: Sequence[Labelled] | Sequence[LabelledSource]) -> Codes:
        listed = self.classes is not None
        for source in sources:
            if not listed and self.max_classes is None:
                check_targets(source.labels, isinstance(source, Labelled))
        classes = fixed_classes(self.classes) if listed else all_classes([s.labels for s in sources])
        codes = Codes(classes)
        check_classes(self.max_classes, codes.classes, listed)
        for source in sources:
            self._check_known(codes, source.labels, f"source {source.name!r}")
        return codes

    def _check_known(self, codes: Codes, labels: Array, where: str) -> None:
        if new := codes.unseen(labels):
            raise InputError(
                f"{where}: label {plain(new[0])!r} is not among classes={codes.classes.tolist()}; "
                "add it there, or leave classes=None to let new classes be learned"
            )

    def _codes_with(self, labels: Array) -> tuple[Codes, Array]:
        """The table of classes with those that are new among these labels, refused if they cannot be; and the codes."""
        table = self._codes
        codes = table.of(labels)
        if not (codes == Codes.NEW).any():
            return table, codes
        if self.classes is not None:
            self._check_known(table, labels, "the stream")
        new = table.unseen(labels)
        counts = [self._learner.source(i).class_counts > 0 for i in range(len(self.source_names_))]
        of_sources = int(np.any(counts, axis=0).sum()) if counts else 0
        check_new_classes(self.max_classes, of_sources, len(table.classes), new)
        table = table.grow(new)
        return table, table.of(labels)

    def _check_ready(self) -> None:
        if not self._codes.labels:
            raise InputError("no class is known yet: learn a label first, or give classes=[...]")

    # -- predicting ---------------------------------------------------------------------------------------------------

    def _predict_row(self, x: Any) -> Prediction:
        row, learner = self._inputs.row(x), self._learner
        if not self._codes.labels:
            self._check_ready()
        return learner.predict_row(row) if row.ndim == 1 else learner.predict_sparse_row(row)

    def _scores(self, X: Matrix, sample_domain: Any = None, allow_source: bool = False) -> Array:
        X, learner = self._inputs.matrix(X), self._learner
        check_target_rows(sample_domain, X.shape[0], allow_source)
        self._check_ready()
        parts = _in_blocks(learner.scores, X)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def predict(self, X: Matrix, sample_domain: Any = None, *, allow_source: bool = False) -> Array:
        """The most likely class of each row by the model as it is; nothing is learned.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (rows, features)
            Every row is taken for one of the target.
        sample_domain : array of whole numbers, or None
            A row that it says is a source's (>= 0) is refused unless `allow_source`.
        allow_source : bool
            Whether rows of sources are predicted as if they were the target's.

        Returns
        -------
        array of shape (rows,)
            Labels of `classes_`.

        Raises
        ------
        InputError
            For rows that cannot be used, and before any class is known.

        Examples
        --------
        >>> clf = OnlineTransferClassifier("homotlms").fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        >>> clf.predict([[0.1, 2.0], [3.0, 0.0]]).tolist()
        ['a', 'b']
        """
        with self._fitted:
            return np.asarray(self.classes_[self._scores(X, sample_domain, allow_source).argmax(axis=1)])

    def predict_proba(self, X: Matrix, sample_domain: Any = None, *, allow_source: bool = False) -> Array:
        """A probability a class: the softmax of the scores, or the shares where they are on the simplex already.

        Parameters
        ----------
        X, sample_domain, allow_source
            As in `predict`.

        Returns
        -------
        array of shape (rows, classes)
            Columns in the order of `classes_`; a row sums to one.

        Examples
        --------
        >>> clf = OnlineTransferClassifier("homotlms").fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        >>> clf.predict_proba([[0.0, 1.0]]).round(2).tolist()
        [[0.62, 0.38]]
        """
        with self._fitted:
            return self._learner.probabilities(self._scores(X, sample_domain, allow_source))

    def decision_function(self, X: Matrix, sample_domain: Any = None, *, allow_source: bool = False) -> Array:
        """Combined scores, of which the largest is the prediction.

        Parameters
        ----------
        X, sample_domain, allow_source
            As in `predict`.

        Returns
        -------
        array of shape (rows, classes), or (rows,) for two classes
            A column a class; of two classes one number, positive for `classes_[1]`.

        Examples
        --------
        >>> clf = OnlineTransferClassifier("homotlms").fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        >>> clf.decision_function([[0.0, 1.0], [1.0, 0.0]]).round(2).tolist()
        [-0.5, 0.5]
        """
        with self._fitted:
            scores = self._scores(X, sample_domain, allow_source)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_set(
        self, X: Matrix, coverage: float | None = None, sample_domain: Any = None, *, allow_source: bool = False
    ) -> Array:
        r"""The classes of each row that are likely enough: a set that is to contain the label with this coverage.

        On any sequence of T labels of known classes, at most :math:`\alpha T + 50 \alpha + 1 - \alpha` are outside of
        the sets made before them, with :math:`\alpha` = 1 - coverage (`hedgerow.coverage`).

        Parameters
        ----------
        X, sample_domain, allow_source
            As in `predict`.
        coverage : float or None
            One of those that the model was made with; None is the first of them.

        Returns
        -------
        array of bool of shape (rows, classes)
            Columns in the order of `classes_`. The predicted class is always in the set.

        Raises
        ------
        InputError
            For a coverage that is not tracked.

        Examples
        --------
        >>> clf = OnlineTransferClassifier("pa", coverage=0.9).partial_fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        >>> for _ in range(50):
        ...     clf = clf.learn_one([0.0, 1.0], "a").learn_one([1.0, 0.0], "b")
        >>> clf.predict_set([[0.0, 2.0], [1.0, 1.0]]).tolist(), clf.coverage_
        ([[True, False], [True, True]], {0.9: 1.0})
        """
        with self._fitted:
            quantile, scores = self._quantile(coverage), self._scores(X, sample_domain, allow_source)
            return sets(quantile, self._learner.probabilities(scores), scores.argmax(axis=1))

    def _quantile(self, coverage: float | None) -> Array:
        at = level_of(self._levels, coverage)
        return np.asarray(self.learner_.state[QUANTILE][at])

    @property
    def _levels(self) -> list[float]:
        return list(self.learner_.state.get(LEVELS, np.empty(0)).tolist())

    def score(
        self, X: Matrix, y: Any, sample_weight: Any = None, *, sample_domain: Any = None, allow_source: bool = False
    ) -> float:
        """The share of rows whose label is predicted (accuracy).

        Parameters
        ----------
        X, sample_domain, allow_source
            As in `predict`.
        y : array of shape (rows,)
            The labels.
        sample_weight : array or None
            How much each row counts.

        Returns
        -------
        float
        """
        from sklearn.metrics import accuracy_score

        predictions = self.predict(X, sample_domain, allow_source=allow_source)
        return float(accuracy_score(y, predictions, sample_weight=sample_weight))

    def predict_one(self, x: Any) -> Hashable:
        """The most likely class of one instance by the model as it is; nothing is learned.

        Parameters
        ----------
        x : array, mapping, Series or table of one row
            A 1-d array in the order of the features, or values by their names.

        Returns
        -------
        Hashable
            A label of `classes_`.

        Raises
        ------
        InputError
            For a row that cannot be used, and before any class is known.

        Examples
        --------
        >>> clf = OnlineTransferClassifier("pa").partial_fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        >>> clf.predict_one([0.0, 2.0])
        'a'
        """
        with self._fitted:
            return self._codes.labels[self._predict_row(x).code]  # type: ignore[no-any-return]

    def predict_proba_one(self, x: Any) -> dict[Hashable, float]:
        """The probability of each class for one instance; `x` as in `predict_one`.

        Returns
        -------
        dict
            Class -> probability, in the order of `classes_`.

        Examples
        --------
        >>> clf = OnlineTransferClassifier("pa").partial_fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        >>> shares = clf.predict_proba_one([0.0, 2.0])
        >>> max(shares, key=shares.get), round(sum(shares.values()), 6)
        ('a', 1.0)
        """
        with self._fitted:
            return self._shares(self._predict_row(x))

    def predict_set_one(self, x: Any, coverage: float | None = None) -> list[Hashable]:
        """The prediction set of one instance; `x` as in `predict_one`, `coverage` as in `predict_set`.

        Returns
        -------
        list
            Labels, the most likely one first.
        """
        with self._fitted:
            quantile, prediction = self._quantile(coverage), self._predict_row(x)
            P = self.learner_.probabilities(prediction.scores[None])
            inside = sets(quantile, P, np.array([prediction.code]))[0]
            order = np.argsort(-P[0], kind="stable")
            return [self._codes.labels[k] for k in order if inside[k]]

    def explain_one(self, x: Any, *, by_column: bool = False, reference: Any = None) -> Explanation:
        """The prediction for one instance, its probabilities, and what each expert says and weighs.

        Parameters
        ----------
        x : array, mapping or table of one row
            The instance.
        by_column : bool
            Also what each column added to the log-odds of the prediction; two rows a column are predicted for it.
            Probabilities below 1e-9 count as 1e-9.
        reference : as x, or None
            The row that `x` is compared with; None is the mean row of the sources.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> clf = OnlineTransferClassifier("homotlms").fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        >>> explanation = clf.explain_one([0.5, 2.0], by_column=True)
        >>> explanation.label, explanation.votes
        ('a', {'source 0': 'a', 'target': 'a'})
        >>> max(explanation.contributions.columns, key=explanation.contributions.columns.get)
        'x1'
        """
        with self._fitted:
            prediction = self._predict_row(x)
            names, labels = self.expert_names_, self._codes.labels
            k, parts = prediction.code, None
            if by_column:
                usual = self.learner_.constants.get("reference")
                what = f"log-odds of {labels[k]}"
                parts = self._contributions(x, lambda X: self._log_odds(X, k), reference, usual, what)
            return Explanation(
                labels[k],
                self._shares(prediction),
                {name: labels[vote] for name, vote in zip(names, prediction.votes, strict=True)},
                dict(zip(names, prediction.weights.tolist(), strict=True)),
                parts,
            )

    def _probabilities(self, X: Array) -> Array:
        """Of rows that are read already."""
        return self.learner_.probabilities(np.concatenate(_in_blocks(self.learner_.scores, X)))

    def _loss(self, X: Array, labels: Array) -> float:
        P, y = self._probabilities(X), self.codes_of(labels)
        return float(-np.log(np.maximum(P[np.arange(len(y)), y], SMALLEST))[y >= 0].mean())

    def _log_odds(self, X: Array, k: int) -> Array:
        """Of class k, for rows that are read already."""
        P = self._probabilities(X)
        return np.asarray(np.log(np.maximum(P[:, k], SMALLEST)) - np.log(np.maximum(1 - P[:, k], SMALLEST)))

    def explain(self, X: Matrix) -> Explanations:
        """The predictions of rows by the model as it is, with their reasons; nothing is learned.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (rows, features)
            Rows of the target.

        Returns
        -------
        Explanations
            Predictions, probabilities, votes and weights, a row an instance.

        Examples
        --------
        >>> clf = OnlineTransferClassifier("homotlms").fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        >>> reasons = clf.explain([[0.0, 1.0]])
        >>> reasons.labels.tolist(), reasons.weights.tolist()
        (['a'], [[0.5, 0.5]])
        """
        with self._fitted:
            X, learner = self._inputs.matrix(X), self._learner
            self._check_ready()
            return Explanations(self.classes_, _in_blocks(learner.explain, X), learner)

    def _shares(self, prediction: Prediction) -> dict[Hashable, float]:
        p = self.learner_.probabilities(prediction.scores[None])[0]
        return dict(zip(self._codes.labels, p.tolist(), strict=True))

    @property
    def coverage_(self) -> dict[float, float]:
        """Coverage -> the share of labels that were in their set so far; NaN before the first.

        A class met for the first time is not counted: no set can have it.
        """
        return self._shares_of_labels(1)

    @property
    def set_size_(self) -> dict[float, float]:
        """Coverage -> the mean number of classes in the sets of the labels so far; NaN before the first."""
        return self._shares_of_labels(2)

    def _shares_of_labels(self, column: int) -> dict[float, float]:
        with self._fitted:
            counts = self.learner_.state.get(COUNTS, np.empty((0, 3)))
            with np.errstate(invalid="ignore"):
                return dict(zip(self._levels, (counts[:, column] / counts[:, 0]).tolist(), strict=True))

    # -- learning -----------------------------------------------------------------------------------------------------

    def partial_fit(self, X: Matrix, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn labelled target rows in order. Before any `fit` it starts a target-only learner (there is no source).

        Parameters
        ----------
        X : array, sparse matrix or table of shape (rows, features)
            Rows of the target.
        y : array of shape (rows,)
            Their labels. Of a row whose label is None or NaN our own learner uses the row itself, others nothing.
        classes : sequence or None
            The classes for a cold start; later calls may repeat those of `classes_`, and no others.
        sample_weight : array or None
            How much each label counts for the classifiers and the class means; a weight of 0 is no label. Mistakes and
            bounds count every label as one.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For rows, labels or classes that cannot be used; nothing is then learned.

        Examples
        --------
        >>> clf = OnlineTransferClassifier("homotlms").fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        >>> clf.partial_fit([[0.0, 2.0], [2.0, 0.0]], ["a", "new"]).classes_.tolist(), clf.seen_
        (['a', 'b', 'new'], 2)
        """
        if not self.__sklearn_is_fitted__():
            with self._restored_on_error():
                inputs, X = self._first_target_rows(X)
                labels, weight = weighted_labels(y, sample_weight, X.shape[0])
                self._start(inputs, [], X[:0], codes=self._cold_codes(labels, classes))
                self._learn(cast(X, self.learner_.dtype), labels, weight)
            return self
        if classes is not None and set(as_labels(list(classes), "classes").tolist()) != set(self.classes_.tolist()):
            raise InputError(
                f"classes={list(classes)}: the model has {self.classes_.tolist()}; leave classes out: a new one is "
                "learned when its first label comes"
            )
        with self._fitted:
            self._learn_rows(X, y, sample_weight)
        return self

    def _cold_codes(self, labels: Array, classes: Any) -> Codes:
        fixed, known = self.classes if self.classes is not None else classes, labels[~is_missing(labels)]
        if fixed is None:
            if self.max_classes is None:
                check_targets(known)
            met = classes_of(known, "y")
            check_new_classes(self.max_classes, 0, 0, met)
        else:
            met = fixed_classes(fixed)
            check_classes(self.max_classes, met, True)
        return Codes(met)

    def learn_one(self, x: Any, y: Any, weight: float = 1.0) -> Self:
        """Learn one target instance.

        A late label is learned the same way: keep the x, and call this when the label arrives.

        Parameters
        ----------
        x : array, mapping, Series or table of one row
            As in `predict_one`.
        y : Hashable or None
            Its label. Of a row without one (None, NaN) our own learner uses the row itself, others nothing.
        weight : float
            How much the label counts; see `partial_fit`.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For a row, a label or a weight that cannot be used; nothing is then learned.

        Examples
        --------
        >>> clf = OnlineTransferClassifier("pa").learn_one([0.0, 1.0], "a").learn_one([1.0, 0.0], "b")
        >>> clf.seen_, clf.classes_.tolist()
        (2, ['a', 'b'])
        """
        lock = self.__dict__.get("_lock")
        if lock is None:
            return self.partial_fit(first_row(x), as_labels([y], "y"), sample_weight=weight)
        with lock:
            code, row, learner = self._codes.code(y), self._inputs.row(x), self._learner
            weight = 1.0 if type(weight) is float and weight == 1.0 else one_weight(weight)
            if code == MISSING and not learner.learns_unlabelled:
                return self
            if row.ndim == 1 and (code >= 0 or (code == MISSING and learner.n_classes)):
                learner.learn_row(row, code, weight)
            else:
                self._learn(row if row.ndim == 2 else row[None], *weighted_labels(objects([y]), weight, 1))
        return self

    def _learn_rows(self, X: Matrix, y: Any, sample_weight: Any) -> list[Trace]:
        """Rows of a fitted model as they were handed in."""
        X = self._inputs.matrix(X)
        return self._learn(X, *weighted_labels(y, sample_weight, X.shape[0]))

    def predict_then_learn(self, X: Matrix, y: Any, sample_weight: Any = None) -> Array:
        """The prequential block path ("test-then-train"): each row is predicted before its label is learned.

        The predictions are those of `predict_one` and `learn_one` in turns.

        Parameters
        ----------
        X, y, sample_weight
            As in `partial_fit`.

        Returns
        -------
        array of shape (rows,)
            What was predicted for each row before its label.

        Raises
        ------
        InputError
            For rows or labels that cannot be used; nothing is then learned.

        Examples
        --------
        >>> clf = OnlineTransferClassifier("pa", preprocess="unit").partial_fit([[0.0, 1.0]], ["a"])
        >>> clf.predict_then_learn([[1.0, 0.0], [2.0, 0.0]], ["b", "b"]).tolist(), clf.mistakes_
        (['a', 'b'], 1)
        """
        return self.explain_then_learn(X, y, sample_weight).labels

    def explain_then_learn(self, X: Matrix, y: Any, sample_weight: Any = None) -> Explanations:
        """As `predict_then_learn`, with the probabilities, votes and weights of every prediction.

        Parameters
        ----------
        X, y, sample_weight
            As in `partial_fit`.

        Returns
        -------
        Explanations
            A row an instance, each as it was before its label.

        Examples
        --------
        >>> clf = OnlineTransferClassifier("pa", preprocess="unit").partial_fit([[0.0, 1.0]], ["a"])
        >>> block = clf.explain_then_learn([[1.0, 0.0], [2.0, 0.0]], ["b", "b"])
        >>> block.labels.tolist(), block.probabilities.round(2).tolist()
        (['a', 'b'], [[1.0, 0.0], [0.27, 0.73]])
        """
        with self._fitted:
            self._check_ready()
            traces = self._learn_rows(X, y, sample_weight)  # which may bring classes
            return Explanations(self.classes_, traces, self.learner_)

    def _learn(self, X: Matrix, labels: Array, weight: Array | None) -> list[Trace]:
        """Rows in order, in blocks; a class met for the first time gets a block of its own, predicted without it."""
        table, codes = self._codes_with(labels)
        if not len(table.classes):  # no label yet, and none here
            return []
        first = sorted(int(np.flatnonzero(codes == k)[0]) for k in range(len(self._codes.classes), len(table.classes)))
        traces = []
        edges = sorted({0, X.shape[0], *first, *(i + 1 for i in first)})
        for a, b in itertools.pairwise(edges):
            part, block = None if weight is None else weight[a:b], rows_from(X, a, b)
            if a in first:
                known = self._learner.n_classes
                traces.append(self._learn_new_class(Codes(table.classes[: known + 1]), block, codes[a:b], part))
            else:
                traces.append(self._learner.run(block, codes[a:b], None, part))
        return traces

    def _learn_new_class(self, codes: Codes, X: Matrix, y: Array, weight: Array | None) -> Trace:
        """The first row of a class, predicted without it, and room for the class: both or neither."""
        with uninterrupted():
            learner = self.learner_.copy()  # so that an error cannot leave the class without its row
            known = learner.n_classes
            learner.grow(known + 1)
            trace = learner.run(X, y, known or None, weight)
            self.learner_, self._codes = learner, codes
        return trace

    # -- what a fitted model says of itself ---------------------------------------------------------------------------

    @property
    def method_(self) -> str:
        """The method that it was fitted with, whatever `set_params` has changed since."""
        with self._fitted:
            return str(self._params["method"])

    @property
    def discrepancy_(self) -> NamedValues:
        r"""How far each source and the target are apart in its space, by the source's name (Eq. 12).

        :math:`\sum_k \lVert A^\top g_k \rVert^2` over the classes that both have shown, :math:`g_k` being the
        difference of their means.
        """
        with self._fitted, uninterrupted(), one_blas_thread:
            return NamedValues(self.source_names_, self._learner.discrepancies())

    mistakes_ = Fitted[int]("_learner.mistakes", "Mistakes so far, each counted when its label was learned.")
    hedge_loss_ = Fitted[float](
        "_learner.mixture_loss",
        r":math:`\sum_t p_t \cdot \ell_t`, what the mixer's weights suffered, which Hedge's bound is about.",
    )


def _in_blocks(read: Callable[[Matrix], T], X: Matrix) -> list[T]:
    """What is read of rows, some of them at a time (of none too): a signal is looked at in between."""
    parts = []
    for a in range(0, max(X.shape[0], 1), PREDICTED):
        with uninterrupted(), one_blas_thread:
            parts.append(read(rows_from(X, a, min(a + PREDICTED, X.shape[0]))))
    return parts


def arguments_of(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the classifier from options by name; answers of a reading may stand among them.

    >>> arguments_of("oddm", {"dim": 20, "preprocess": "zscore+unit"})
    {'method': 'oddm', 'reading': 'general', 'dim': 20, 'preprocess': 'zscore+unit'}
    >>> arguments_of("oddm", {"reading": "authors", "lam": 0.5})["reading"].lam
    0.5
    """
    known = [name for name in OnlineTransferClassifier().get_params() if name != "method"]
    # a classifier has a preprocessing of its own, and does not split
    answers = [each.name for each in fields(Reading) if each.name not in (*known, "split_rule", "preset")]
    for name in options:
        if name not in (*known, *answers):
            raise unknown("option", name, [*known, *answers])
    arguments = {name: value for name, value in options.items() if name in known}
    changes = {name: value for name, value in options.items() if name not in known}
    preset = arguments.pop("reading", "general")
    return {"method": method, "reading": reading_of(preset, method, **changes) if changes else preset, **arguments}
