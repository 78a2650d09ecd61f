"""OnlineTransferClassifier: scikit-learn's verbs and river's verbs over one learner; classes and labels.

What does not depend on the kind of target is in `hedgerow.base`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from hedgerow.base import ClassifierMixin, Fitted, NamedValues, OnlineTransferEstimator
from hedgerow.contributions import Contributions, html, summary
from hedgerow.core.arrays import DENSE_LIMIT, Array, Matrix, cast, check_finite, rows_from
from hedgerow.core.domains import Domain, Frame, same_columns
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.values import MISSING, Codes, as_labels, classes_of, is_missing, objects, plain
from hedgerow.coverage import COUNTS, LEVELS, QUANTILE, coverages, level_of, sets
from hedgerow.findings import check_classes_repeat
from hedgerow.given import Asking, experts_of
from hedgerow.inputs import (
    Inputs,
    Labelled,
    all_classes,
    check_classes,
    check_new_classes,
    check_sources,
    check_target_rows,
    check_targets,
    cost_matrix,
    first_row,
    fixed_classes,
    one_weight,
    weighted_labels,
)
from hedgerow.learner import Prediction, Trace
from hedgerow.methods import (
    METHODS,
    QUESTIONS,
    RECIPES,
    PaperOptions,
    Recipe,
    Training,
    build,
    check_merges,
    choose,
    name_of,
    paper_options,
    reading_of,
)
from hedgerow.rows.partitions import PartitionedSource, check_alike

__all__ = [
    "Explanation",
    "Explanations",
    "NamedValues",
    "OnlineTransferClassifier",
    "OnlineTransferEstimator",
]

T = TypeVar("T")
PREDICTED = 1024  # rows that are predicted before a signal is looked at
OF_OPTIONS = "options__"  # before the name of an option where parameters are nested
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

    label: Any
    probabilities: dict[Any, float]
    votes: dict[str, Any]
    weights: dict[str, float]
    contributions: Contributions | None = None

    def __str__(self) -> str:
        prediction = f"{self.label}, probability {self.probabilities[self.label]:.3g}"
        return summary(prediction, self.votes, self.weights, self.contributions)

    def _repr_html_(self) -> str:
        return html(self)


class Explanations(NamedTuple):
    """The predictions of a block, each made before its label was learned, with their reasons; a row an instance.

    Attributes
    ----------
    classes : array
        Those known at the end of the block: one met within it has probability 0 until then.
    codes : array of shape (rows,)
        The places in `classes` of the likeliest ones, by which mistakes are counted.
    probabilities : array of shape (rows, classes)
        A column a class.
    votes, weights : arrays of shape (rows, experts)
        The place in `classes` of what each expert names, and how much it was trusted.
    decided : array of shape (rows,) or None
        The places of `labels`, the predictions, where the model has `costs`; else they are the codes.
    """

    classes: Array
    codes: Array
    probabilities: Array
    votes: Array
    weights: Array
    decided: Array | None = None

    @property
    def labels(self) -> Array:
        """The predictions."""
        return np.asarray(self.classes[self.codes if self.decided is None else self.decided])


class OnlineTransferClassifier(ClassifierMixin, OnlineTransferEstimator):
    r"""Classifier for online transfer learning: fit on labelled sources, then predict and learn the target's stream.

    Use it where rows of other domains have labels now and those of the target come one after the other, each label
    after its prediction ("test-then-train"). Where all labels of the target are there already, an ordinary classifier
    serves better; where several targets share their sources, see `hedgerow.fleet.Fleet`.

    The prediction is that of a mixture of experts, of which some know a source only and others learn from every label:

    .. math:: \hat y_t = \arg\max_k \sum_i p_{t,i} f_{t,i,k}(x_t)

    The weights :math:`p_t` follow their mistakes, with a bound on those of the mixture (`bound_`, `guarantee_`). A
    fitted model may be used by several threads: every call sees it before or after every other, never in between.

    Parameters
    ----------
    method : str or Recipe
        A name of `hedgerow.METHODS`: hedgerow (ours, the default), hedgerow-linear (its light sibling), and the
        paper's: pa, paio, homotl-1, homotl-2, homotlms, oddm-fixed, oddm. Or a `Recipe` of your own. A method reads
        some of the options below; one that was set and that it does not read is refused.
    options : PaperOptions or None
        Options of the paper's methods: `options=PaperOptions(dim=20)`. None: all at their defaults.
    rank : int or None
        Upper limit of the dimension of our own learner's input: a leaner, faster model at some price in mistakes.
    trees : bool or None
        Whether our own learner has trees of the sources among its heads. None: where columns and classes are few and
        the columns differ in kind, as in a table; `explain` and `weights_` name them "boost" and "leaves".
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
    random_state : int or None
        Seed for parts that draw at random (landmarks; nothing in the paper's methods). None is 0.
    table : mapping or None
        What to know of a table's columns: a dict with names under "drop", "keep", "id", "time" and "text".
    coverage : float, sequence of float or None
        The share of labels that the sets of `predict_set` are to contain, between 0 and 1; several have a tracker each.
        None tracks no sets.
    costs : mapping, matrix or None
        What mistakes cost: {"fraud": 50} where a missed fraud costs 50 and any other mistake 1; or a matrix, a row a
        true class, a column a prediction, in the order of `classes_`. `predict`, `predict_one`, `predict_then_learn`
        and the predictions of runs and services are then the classes with the lowest expected cost. Probabilities,
        sets, `mistakes_`, `bound_` and `drift_` stay those of the likeliest class. None: the likeliest class.
    experts : mapping or None
        Models of your own by name, which join the mixture as they are and adapted to the labels: fitted classifiers,
        or functions, from rows as you have them (an array, a frame) to probabilities or scores. A function's columns
        are the classes in sorted order, or as `classes` lists them. Files do not hold them: `load(.., experts=..)`.

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
    Du, Tan, Chen, Zhang, Wang: Homogeneous online transfer learning with online distribution discrepancy
    minimization (ECAI 2020).

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

    __metadata_request__predict_proba = MappingProxyType(
        {"sample_domain": True, "allow_source": True}
    )
    __metadata_request__decision_function = __metadata_request__predict_proba

    def __init__(
        self,
        method: str | Recipe = "hedgerow",
        *,
        options: PaperOptions | None = None,
        rank: int | None = None,
        trees: bool | None = None,
        preprocess: str | Sequence[str] | None = None,
        classes: Sequence[Hashable] | None = None,
        max_classes: int | None = None,
        random_state: int | None = None,
        table: Mapping[str, Any] | None = None,
        coverage: float | Sequence[float] | None = None,
        costs: Mapping[Hashable, float] | Sequence[Sequence[float]] | None = None,
        experts: Mapping[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.options = options
        self.rank = rank
        self.trees = trees
        self.preprocess = preprocess
        self.classes = classes
        self.max_classes = max_classes
        self.random_state = random_state
        self.table = table
        self.coverage = coverage
        self.costs = costs
        self.experts = experts

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, as scikit-learn's models do.

        Parameters
        ----------
        **params
            `options__dim=20` changes one of the options and keeps the others.

        Returns
        -------
        self

        Examples
        --------
        >>> OnlineTransferClassifier("oddm").set_params(options__dim=20).options
        PaperOptions(dim=20)
        """
        changes = {name: params.pop(name) for name in list(params) if name.startswith(OF_OPTIONS)}
        super().set_params(**params)
        if changes:
            before = paper_options(self.get_params(deep=False))
            changes = {name.removeprefix(OF_OPTIONS): value for name, value in changes.items()}
            for name in changes:
                if name not in before.get_params():
                    raise unknown("option", name, before.get_params())
            self.options = replace(before, **changes)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.poor_score = (
            self.method == "pa"
        )  # it has no use for sources: `fit` teaches it nothing
        return tags

    # -- the offline stage --------------------------------------------------------------------------------------------

    def _fit_partitioned(self, sources: Sequence[PartitionedSource], warmup: Domain | None) -> Self:
        """`fit_domains` of sources that are read part by part."""
        params = self.get_params(deep=False)
        choose(params)
        check_merges(params["method"])
        if warmup is not None and isinstance(warmup.X, Frame):
            raise InputError(
                f"domain {warmup.name!r} has columns that are no numbers, or gaps; sources that are read part by part "
                "are numbers, so encode all of them first"
            )
        check_alike(sources)
        names = list(sources[0].feature_names)
        if 8 * len(names) ** 2 > DENSE_LIMIT:
            raise InputError(
                f"{len(names)} features: a Gram matrix of them takes {8 * len(names) ** 2 / 2**30:.1f} GiB; use fewer "
                "features"
            )
        first = Domain(sources[0].name, np.zeros((1, len(names))), feature_names=names)
        target = None if warmup is None else same_columns([first, warmup])[1]
        dtype = np.result_type(
            *(source.dtype for source in sources), *([] if target is None else [target.X.dtype])
        )
        rows = np.empty((0, len(names)), dtype) if target is None else cast(target.X, dtype)
        check_finite(rows, f"domain {'' if target is None else target.name!r}", names)
        with self._restored_on_error():
            self._start(Inputs(len(names), np.array(names, dtype=object)), sources, rows)
        return self

    def _start(
        self,
        inputs: Inputs,
        sources: Sequence[Labelled] | Sequence[PartitionedSource],
        warmup: Matrix,
        positions: Sequence[Array] = (),
        codes: Codes | None = None,
    ) -> None:
        """Every form of `fit`, and a cold start, whose codes are known: one `Training`, one build."""
        method, options = choose(self.get_params(deep=False), inputs.encoder)
        names = check_sources(sources)
        if codes is None:
            codes = self._codes_of(sources, inputs.encoder is not None)
        models: dict[str, list[int]] = {}
        if self.experts is not None:
            experts = experts_of(self.experts, codes.classes)
            if not len(codes.classes):
                codes = Codes(all_classes([each.classes for each in experts]))
            models = {each.name: codes.of(each.classes).tolist() for each in experts}
        rows = [source.rows(codes.classes, warmup.dtype) for source in sources]
        levels = () if self.coverage is None else coverages(self.coverage)
        spans = None if inputs.encoder is None else inputs.encoder.spans
        K = len(codes.classes)
        if self.costs is not None:
            cost_matrix(self.costs, codes.labels)
        built = build(
            method, Training(names, rows, warmup, K, options, positions, spans=spans, models=models)
        )
        learner = built.learner.with_sets(levels) if levels else built.learner
        learner = learner.checked(K, inputs.width)
        if models:
            known = [*(each.X for each in sources if isinstance(each, Labelled)), warmup]
            inputs = Asking.of(inputs, experts).asked(max(known, key=lambda X: X.shape[0]))
        self._install(learner, codes, inputs, names, built.infos)

    # -- classes ------------------------------------------------------------------------------------------------------

    classes_ = Fitted[Array](
        "_codes.classes", "The labels, in the order of `predict_proba`; one met later is last."
    )

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

    def _codes_of(
        self, sources: Sequence[Labelled] | Sequence[PartitionedSource], tables: bool
    ) -> Codes:
        listed = self.classes is not None
        for source in sources:
            if not listed and self.max_classes is None:
                check_targets(source.labels, isinstance(source, Labelled))
        classes = (
            fixed_classes(self.classes) if listed else all_classes([s.labels for s in sources])
        )
        codes = Codes(classes)
        check_classes(self.max_classes, codes.classes, listed)
        in_memory = [(s.name, s.labels) for s in sources if isinstance(s, Labelled)]
        if tables and in_memory and not listed and self.max_classes is None:
            check_classes_repeat(in_memory)
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
            raise InputError("no class is known yet: learn a label first, or pass classes=[...]")

    # -- predicting ---------------------------------------------------------------------------------------------------

    def _predict_row(self, x: Any) -> Prediction:
        row = self._inputs.row(x)
        learner = self._learner
        if not self._codes.labels:
            self._check_ready()
        return learner.predict_row(row) if row.ndim == 1 else learner.predict_sparse_row(row)

    def _scores(self, X: Matrix, sample_domain: Any = None, allow_source: bool = False) -> Array:
        X = self._inputs.matrix(X)
        learner = self._learner
        check_target_rows(sample_domain, X.shape[0], allow_source)
        self._check_ready()
        parts = _in_blocks(learner.scores, X)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def predict(self, X: Matrix, sample_domain: Any = None, *, allow_source: bool = False) -> Array:
        """Predict the most likely class of each row; nothing is learned.

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
            scores = self._scores(X, sample_domain, allow_source)
            likeliest = scores.argmax(axis=1)
            if self.costs is not None:
                likeliest = self.decided(self._learner.probabilities(scores), likeliest)
            return np.asarray(self.classes_[likeliest])

    def decided(self, P: Array, likeliest: Array) -> Array:
        """The places of the classes to predict: those of the lowest expected cost, or the likeliest without `costs`.

        Parameters
        ----------
        P : array of shape (rows, classes)
            Probabilities, as `predict_proba` gives them.
        likeliest : array of shape (rows,)
            The places of the likeliest classes.

        Returns
        -------
        array of shape (rows,)

        Examples
        --------
        >>> X = [[0.0, 1.0], [1.0, 0.0]]
        >>> clf = OnlineTransferClassifier("homotlms", costs={"b": 50}).fit(X, ["a", "b"])
        >>> clf.predict(X).tolist(), clf.decided(np.array([[0.99, 0.01]]), np.array([0])).tolist()
        (['b', 'b'], [0])
        """
        if self.costs is None or not len(P):
            return likeliest
        K = P.shape[1]
        expected = P @ cost_matrix(self.costs, self._codes.labels)[:K, :K]
        return np.asarray(expected.argmin(axis=1))

    def predict_proba(
        self, X: Matrix, sample_domain: Any = None, *, allow_source: bool = False
    ) -> Array:
        """Predict class probabilities: the softmax of the scores, or the scores themselves if they are on the simplex.

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

    def decision_function(
        self, X: Matrix, sample_domain: Any = None, *, allow_source: bool = False
    ) -> Array:
        """Combined scores of the experts; the class with the largest score is predicted.

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
        self,
        X: Matrix,
        coverage: float | None = None,
        sample_domain: Any = None,
        *,
        allow_source: bool = False,
    ) -> Array:
        r"""Predict for each row a set of classes that should contain the label with this coverage.

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
            quantile = self._quantile(coverage)
            scores = self._scores(X, sample_domain, allow_source)
            return sets(quantile, self._learner.probabilities(scores), scores.argmax(axis=1))

    def _quantile(self, coverage: float | None) -> Array:
        at = level_of(self._levels, coverage)
        return np.asarray(self.learner_.state[QUANTILE][at])

    @property
    def _levels(self) -> list[float]:
        return list(self.learner_.state.get(LEVELS, np.empty(0)).tolist())

    def score(
        self,
        X: Matrix,
        y: Any,
        sample_weight: Any = None,
        *,
        sample_domain: Any = None,
        allow_source: bool = False,
    ) -> float:
        """Accuracy: the share of rows whose label is predicted.

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

    def predict_one(self, x: Any) -> Any:
        """Predict the most likely class of one instance; nothing is learned.

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
            prediction = self._predict_row(x)
            return self._codes.labels[self._decided_one(prediction)]

    def _decided_one(self, prediction: Prediction) -> int:
        if self.costs is None:
            return prediction.code
        P = self.learner_.probabilities(prediction.scores[None])
        return int(self.decided(P, np.array([prediction.code]))[0])

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Predict the probability of each class for one instance; `x` as in `predict_one`.

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

    def predict_set_one(self, x: Any, coverage: float | None = None) -> list[Any]:
        """The prediction set of one instance; `x` as in `predict_one`, `coverage` as in `predict_set`.

        Returns
        -------
        list
            Labels, the most likely one first.
        """
        with self._fitted:
            quantile = self._quantile(coverage)
            prediction = self._predict_row(x)
            P = self.learner_.probabilities(prediction.scores[None])
            inside = sets(quantile, P, np.array([prediction.code]))[0]
            order = np.argsort(-P[0], kind="stable")
            return [self._codes.labels[k] for k in order if inside[k]]

    def explain_one(self, x: Any, *, by_column: bool = False, reference: Any = None) -> Explanation:
        """Explain the prediction for one instance: its probabilities, and the vote and the weight of each expert.

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
            names = self.expert_names_
            labels = self._codes.labels
            k = self._decided_one(prediction)
            parts = None
            if by_column:
                usual = self.learner_.constants.get("reference")
                what = f"log-odds of {labels[k]}"
                parts = self._contributions(
                    x, lambda X: self._log_odds(X, k), reference, usual, what
                )
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
        P = self._probabilities(X)
        y = self.codes_of(labels)
        return float(-np.log(np.maximum(P[np.arange(len(y)), y], SMALLEST))[y >= 0].mean())

    def _log_odds(self, X: Array, k: int) -> Array:
        """Of class k, for rows that are read already."""
        P = self._probabilities(X)
        return np.asarray(
            np.log(np.maximum(P[:, k], SMALLEST)) - np.log(np.maximum(1 - P[:, k], SMALLEST))
        )

    def explain(self, X: Matrix) -> Explanations:
        """Explain the predictions for rows; nothing is learned.

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
            X = self._inputs.matrix(X)
            learner = self._learner
            self._check_ready()
            return self._explained(_in_blocks(learner.explain, X))

    def _explained(self, traces: Sequence[Trace]) -> Explanations:
        K = len(self._codes.classes)
        parts = [self.learner_.probabilities(trace.scores) for trace in traces]
        codes = np.concatenate([trace.predictions for trace in traces])
        P = np.concatenate([np.pad(part, [(0, 0), (0, K - part.shape[1])]) for part in parts])
        return Explanations(
            self.classes_,
            codes,
            P,
            np.concatenate([trace.votes for trace in traces]),
            np.concatenate([trace.weights for trace in traces]),
            None if self.costs is None else self.decided(P, codes),
        )

    def _shares(self, prediction: Prediction) -> dict[Any, float]:
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
                return dict(
                    zip(self._levels, (counts[:, column] / counts[:, 0]).tolist(), strict=True)
                )

    # -- learning -----------------------------------------------------------------------------------------------------

    def partial_fit(
        self,
        X: Matrix,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        known: Any = None,
    ) -> Self:
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
        known : label, array or None
            `known_` as it was when each row was predicted, for all rows or one each. None: no row knew the label of
            another one of this call, only what was learned before it, so that a block is not the same as its rows one
            after the other. Our own learner has an expert that repeats the label; others have no use for it.

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
                self._learn(
                    cast(X, self.learner_.dtype), labels, weight, self._known(known, len(labels))
                )
            return self
        if classes is not None and set(as_labels(list(classes), "classes").tolist()) != set(
            self.classes_.tolist()
        ):
            raise InputError(
                f"classes={list(classes)}: the model has {self.classes_.tolist()}; leave classes out: a new one is "
                "learned when its first label comes"
            )
        with self._fitted:
            X = self._inputs.matrix(X)
            before = self._known(known, X.shape[0])
            self._learn(X, *weighted_labels(y, sample_weight, X.shape[0]), before)
        return self

    @property
    def known_(self) -> Any:
        """The newest label that was learned, which is what is known when a row is predicted; NaN: none.

        It may be set, where labels come in another order than their rows: to that of the newest row that has one. A
        method without an expert that repeats labels keeps none.

        Examples
        --------
        >>> clf = OnlineTransferClassifier().fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        >>> known = clf.known_
        >>> clf.predict_one([0.0, 2.0]), clf.learn_one([0.0, 2.0], "a", known=known).known_
        ('a', 'a')
        """
        with self._fitted:
            code = self._learner.last
            return float("nan") if code < 0 else self._codes.labels[code]

    @known_.setter
    def known_(self, label: Any) -> None:
        with self._fitted:
            self._learner.last = max(self._codes.code(label), MISSING)

    def _known(self, known: Any, n: int) -> Array:
        """The codes of labels that were known when n rows were predicted; below 0 for none."""
        if known is None:
            return np.full(n, self._learner.last)
        if isinstance(known, str) or np.ndim(known) == 0:
            return np.full(n, max(self._codes.code(known), MISSING))
        labels = as_labels(known, "known")
        if len(labels) != n:
            raise InputError(f"known has {len(labels)} labels for {n} rows; give one, or one a row")
        return np.maximum(self._codes.of(labels), MISSING)

    def _cold_codes(self, labels: Array, classes: Any) -> Codes:
        fixed = self.classes if self.classes is not None else classes
        known = labels[~is_missing(labels)]
        if fixed is None:
            if self.max_classes is None:
                check_targets(known)
            met = classes_of(known, "y")
            check_new_classes(self.max_classes, 0, 0, met)
        else:
            met = fixed_classes(fixed)
            check_classes(self.max_classes, met, True)
        return Codes(met)

    def learn_one(self, x: Any, y: Any, weight: float = 1.0, known: Any = None) -> Self:
        """Learn one target instance.

        A late label is learned the same way: keep the x, and `known_` as it was when x was predicted, and call this
        when the label arrives.

        Parameters
        ----------
        x : array, mapping, Series or table of one row
            As in `predict_one`.
        y : Hashable or None
            Its label. Of a row without one (None, NaN) our own learner uses the row itself, others nothing.
        weight : float
            How much the label counts; see `partial_fit`.
        known : Hashable or None
            `known_` as it was when the row was predicted. None: as it is now.

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
            self._warn_of_no_sources()
            return self.partial_fit(first_row(x), as_labels([y], "y"), None, weight, known)
        with lock:
            code = self._codes.code(y)
            row = self._inputs.row(x)
            learner = self._learner
            weight = 1.0 if type(weight) is float and weight == 1.0 else one_weight(weight)
            if code == MISSING and not learner.learns_unlabelled:
                return self
            before = None if known is None else max(self._codes.code(known), MISSING)
            if row.ndim == 1 and (code >= 0 or (code == MISSING and learner.n_classes)):
                learner.learn_row(row, code, weight, before)
            else:
                labels = weighted_labels(objects([y]), weight, 1)
                told = None if before is None else np.array([before])
                self._learn(row if row.ndim == 2 else row[None], *labels, told)
        return self

    def _learn_rows(self, X: Matrix, y: Any, sample_weight: Any) -> list[Trace]:
        """Rows of a fitted model as they were handed in, each after the labels of those before it."""
        X = self._inputs.matrix(X)
        return self._learn(X, *weighted_labels(y, sample_weight, X.shape[0]))

    def predict_then_learn(self, X: Matrix, y: Any, sample_weight: Any = None) -> Array:
        """Predict each row before its label is learned, in order ("test-then-train").

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
        """As `predict_then_learn`, and explain every prediction: probabilities, votes and weights.

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
            return self._explained(self._learn_rows(X, y, sample_weight))

    def _learn(
        self, X: Matrix, labels: Array, weight: Array | None, before: Array | None = None
    ) -> list[Trace]:
        """Rows in order, in blocks; a class met for the first time gets a block of its own, predicted without it."""
        table, codes = self._codes_with(labels)
        if not len(table.classes):  # no label yet, and none here
            return []
        first = sorted(
            int(np.flatnonzero(codes == k)[0])
            for k in range(len(self._codes.classes), len(table.classes))
        )
        traces = []
        edges = sorted({0, X.shape[0], *first, *(i + 1 for i in first)})
        for a, b in itertools.pairwise(edges if X.shape[0] else (0, 0)):
            own = (None if array is None else array[a:b] for array in (weight, before))
            block = rows_from(X, a, b)
            if a in first:
                known = self._learner.n_classes
                grown = Codes(table.classes[: known + 1])
                traces.append(self._learn_new_class(grown, block, codes[a:b], *own))
            else:
                traces.append(self._learner.run(block, codes[a:b], None, *own))
        return traces

    def _learn_new_class(
        self, codes: Codes, X: Matrix, y: Array, weight: Array | None, before: Array | None
    ) -> Trace:
        """The first row of a class, predicted without it, and room for the class: both or neither."""
        with uninterrupted():
            learner = (
                self.learner_.copy()
            )  # so that an error cannot leave the class without its row
            known = learner.n_classes
            learner.grow(known + 1)
            trace = learner.run(X, y, known or None, weight, before)
            self.learner_ = learner
            self._codes = codes
        return trace

    # -- what a fitted model says of itself ---------------------------------------------------------------------------

    @property
    def method_(self) -> str:
        """The method that it was fitted with, whatever `set_params` has changed since."""
        with self._fitted:
            return name_of(self._params["method"])

    @property
    def reading_(self) -> str:
        """The preset of the reading that it was fitted with (`PaperOptions`)."""
        with self._fitted:
            return reading_of(paper_options(self._params).reading).preset

    @property
    def discrepancy_(self) -> NamedValues:
        r"""The discrepancy between each source and the target in its space, by the source's name (Eq. 12).

        :math:`\sum_k \lVert A^\top g_k \rVert^2` over the classes that both have shown, :math:`g_k` being the
        difference of their means.
        """
        with self._fitted, uninterrupted(), one_blas_thread:
            return NamedValues(self.source_names_, self._learner.discrepancies())

    mistakes_ = Fitted[int](
        "_learner.mistakes", "Mistakes so far, each counted when its label was learned."
    )
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


def arguments_of(method: str | Recipe, options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the classifier from options by name; answers of a reading may stand among them.

    The name of a recipe in a plug-in file gives the recipe itself, so that files of the model hold it.

    >>> arguments_of("oddm", {"dim": 20, "preprocess": "zscore+unit"})
    {'method': 'oddm', 'preprocess': 'zscore+unit', 'options': PaperOptions(dim=20)}
    >>> arguments_of("oddm", {"reading": "authors", "lam": 0.5})["options"].reading.lam
    0.5
    """
    known = [
        name
        for name in OnlineTransferClassifier().get_params()
        if name not in ("method", "options")
    ]
    of_paper = PaperOptions().get_params()
    # a classifier has a preprocessing of its own, and does not split
    answers = [name for name in QUESTIONS if name not in (*known, "split_rule")]
    names = [*known, *of_paper, *answers]
    for name in options:
        if name not in names:
            raise unknown("option", name, names)
    arguments: dict[str, Any] = {"method": method}
    if isinstance(method, str) and method not in RECIPES and method in METHODS:
        arguments["method"] = METHODS[method]
    arguments |= {name: value for name, value in options.items() if name in known}
    own = {name: value for name, value in options.items() if name in of_paper}
    changes = {name: value for name, value in options.items() if name not in (*known, *of_paper)}
    if changes:
        own["reading"] = reading_of(own.get("reading", "general"), name_of(method), **changes)
    if own:
        arguments["options"] = PaperOptions(**own)
    return arguments
