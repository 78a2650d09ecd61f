"""OnlineTransferClassifier: scikit-learn's verbs and river's verbs over one learner."""

from __future__ import annotations

import itertools
import os
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hedgerow.align import Aligner, Info
from hedgerow.core.arrays import Array, Matrix, cast, check_finite, rows_from
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.core.labels import MISSING, Codes, as_labels, classes_of, is_missing, plain
from hedgerow.estimator import input_rows as rows
from hedgerow.estimator import inputs as door
from hedgerow.estimator import model_file as store
from hedgerow.learners.base import OnlineLearner
from hedgerow.methods import Recipe
from hedgerow.methods.build import AlignFit, Options, Source, build, fit_aligner


class OnlineTransferClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Labelled sources in advance, a target that streams: predict, see the label, learn, with every instance.

    Parameters
    ----------
    method : a name of `hedgerow.methods.METHODS`: hedgerow (ours, the default), hedgerow-linear (its light sibling),
        and the paper's: pa, paio, homotl-1, homotl-2, homotlms, oddm-fixed, oddm.
    reading : "general" (our defaults for any data), "authors" (the released code), "paper" (the text as printed) or
        "table" (what reproduces the published table). It sets every option below that is None;
        `hedgerow.methods.readings` has the whole list.
    aligner : name or object of `hedgerow.align`; None is the method's own (JDA for the ODDM methods).
    dim : upper limit of the dimension of an aligned space; `dim_` says what the data allowed.
    rank : upper limit of the dimension of our own learner's spaces: a leaner, faster model at some price in mistakes.
        None keeps all (at most 1000 landmarks, and as many dimensions as there are features).
    lam : ridge of the aligner.
    rounds : rounds of pseudo-labels in JDA and BDA.
    C : aggressiveness of PA-I and PA-II.
    mu : strength of the refresh, A <- (I + mu sum_k g_k g_k^T)^{-1} A.
    refresh_every : T_w, the number of labels between refreshes.
    beta : Hedge's discount in (0, 1). None takes sqrt T/(sqrt T + sqrt ln N) from `horizon`; without a horizon the
        anytime rule is used: the labels so far in place of T (`hedgerow.mix.Hedge`).
    horizon : T, the expected number of labels.
    unseen : what the refresh does with a class not met yet in the target: "zero", "skip" or "shrink".
    eigenvectors : scaling of the aligner's columns: "unit" length, or "S" (a^T S a = 1).
    source_pass : a source's classifier is the "last" of its pass, or the "average" over it.
    combine : experts are combined by their "scores" or by a "vote"; None is the method's own way.
    preprocess : names of `hedgerow.core.preprocess` steps, e.g. ("row-minmax", "unit") or "zscore+unit"; () for none.
    classes : the labels that can occur. If given, another label is refused; if None, a class first met in the stream
        is learned, and stands last in `classes_`.
    max_classes : upper limit of the number of classes, since memory grows with its square. None allows 1,000 more than
        the sources have, and sources of up to 10,000.
    dtype : "float64", "float32" or None (as the data comes).
    random_state : seed for parts that draw at random (landmarks; nothing in the paper's methods). None is 0.
    tau, target_mean, projected, beta_rule, inverse, guarantee : the remaining places where paper and code differ.
    head : update rule of the classifiers: pa1, pa, pa2, perceptron, arow, arow-diagonal, or a registered one.
    mixer : "hedge", "adahedge", "squint", "fixed-share", "loss" or "log-loss" in place of the method's own; `loss` and
        `eta` are those of the loss-based one. With combine="simplex" fixed share is that on the log-loss.

    Attributes
    ----------
    classes_, source_names_, expert_names_, dim_, info_, learner_, weights_, discrepancy_, mistakes_, seen_, bound_,
    guarantee_, hedge_loss_

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

    learner_: OnlineLearner
    classes_: Array

    def __init__(
        self,
        method: str = "hedgerow",
        *,
        reading: str = "general",
        aligner: str | Aligner | None = None,
        dim: int = 100,
        rank: int | None = None,
        lam: float | None = None,
        rounds: int = 10,
        C: float = 5.0,
        mu: float = 1.0,
        refresh_every: int | None = None,
        beta: float | None = None,
        horizon: float | None = None,
        unseen: str | None = None,
        eigenvectors: str | None = None,
        source_pass: str | None = None,
        combine: str | None = None,
        preprocess: str | Sequence[str] | None = None,
        classes: Sequence[Hashable] | None = None,
        max_classes: int | None = None,
        dtype: str | None = None,
        random_state: int | None = None,
        tau: str | None = None,
        target_mean: str | None = None,
        projected: str | None = None,
        beta_rule: str | None = None,
        inverse: str | None = None,
        guarantee: str | None = None,
        head: str = "pa1",
        mixer: str | None = None,
        loss: str = "projection",
        eta: float = 0.5,
    ) -> None:
        self.method = method
        self.reading = reading
        self.aligner = aligner
        self.dim = dim
        self.rank = rank
        self.lam = lam
        self.rounds = rounds
        self.C = C
        self.mu = mu
        self.refresh_every = refresh_every
        self.beta = beta
        self.horizon = horizon
        self.unseen = unseen
        self.eigenvectors = eigenvectors
        self.source_pass = source_pass
        self.combine = combine
        self.preprocess = preprocess
        self.classes = classes
        self.max_classes = max_classes
        self.dtype = dtype
        self.random_state = random_state
        self.tau = tau
        self.target_mean = target_mean
        self.projected = projected
        self.beta_rule = beta_rule
        self.inverse = inverse
        self.guarantee = guarantee
        self.head = head
        self.mixer = mixer
        self.loss = loss
        self.eta = eta

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- the offline stage --------------------------------------------------------------------------------------

    def fit(self, X: Matrix, y: Any, sample_domain: Any = None, sample_weight: Any = None) -> OnlineTransferClassifier:
        """Start from labelled sources (sample_domain >= 0: the source's number) and unlabelled target rows (< 0).

        Without `sample_domain` all rows are one source. The labels of target rows are never looked at. Rows of a source
        are presented to its classifier in the order given, and so are those of all sources to a pooled one.
        `sample_weight` says how much each source row counts for the classifiers and the means of its source (not for
        the scaling and the alignment, which have no labels); a row of weight 0 is left out. See `partial_fit`.
        """
        if y is None:
            raise InputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None; "
                "give a label for every source row"
            )
        with self._restored_on_error():
            self.__dict__.pop("_names_of_domains", None)
            X = self._matrix(X, reset=True)
            labels = door.labels(y, X.shape[0])
            domain = door.sample_domains(sample_domain, X.shape[0])
            weight = door.weights(sample_weight, X.shape[0], domain >= 0)
            sources = [
                (name, X[at], labels[at], at, None if weight is None else weight[at])
                for name, at in door.source_rows(domain, weight)
            ]
            self._start(sources, X[domain < 0])
        return self

    def fit_domains(
        self,
        sources: Sequence[Domain],
        warmup: Domain | None = None,
        *,
        together: Array | None = None,
        align: AlignFit = fit_aligner,
    ) -> OnlineTransferClassifier:
        """As `fit`, from named domains.

        `together` is the order in which a pooled classifier sees the rows of all sources (a permutation of them; None:
        source after source). `align(aligner, source, codes, warmup)` may return a remembered alignment.
        """
        sources, warmup, names = rows.domains_alike(sources, warmup)
        domains = [*sources, *([warmup] if warmup is not None else [])]
        dtype = door.given_dtype(self.dtype) or np.result_type(*(d.X.dtype for d in domains))
        matrices = [cast(d.X, dtype) for d in domains]
        for d, X in zip(domains, matrices, strict=True):
            check_finite(X, f"domain {d.name!r}", d.feature_names)
        ends = np.cumsum([len(d) for d in sources])
        rank = np.arange(ends[-1]) if together is None and len(ends) else np.argsort(np.asarray(together, dtype=int))
        places = np.split(rank, ends[:-1])
        parts = [
            (d.name, X, d.y, at, None) for d, X, at in zip(sources, matrices, places, strict=False) if d.y is not None
        ]
        with self._restored_on_error():
            self.n_features_in_ = domains[0].X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = names
                self._names_of_domains = True
            self._start(parts, matrices[0][:0] if warmup is None else matrices[-1], align)
        return self

    @contextmanager
    def _restored_on_error(self) -> Iterator[None]:
        """Every attribute as it was, should anything in the block fail."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _start(
        self,
        sources: Sequence[tuple[str, Matrix, Array, Array, Array | None]],
        warmup: Matrix,
        align: AlignFit = fit_aligner,
    ) -> None:
        recipe, options = self._composition()
        labels = [y for _, _, y, _, _ in sources]
        for name, _, y, _, _ in sources:
            if is_missing(y).any():
                row = int(np.flatnonzero(is_missing(y))[0])
                raise InputError(
                    f"source {name!r}: Input y contains NaN or None at row {row}; a source row needs a label"
                )
            door.check_targets(y)
        codes = Codes(door.all_classes(labels) if self.classes is None else door.given_classes(self.classes))
        door.check_classes(self.max_classes, codes.classes, self.classes is not None)
        parts = [Source(name, X, self._known(codes, y, f"source {name!r}"), at, w) for name, X, y, at, w in sources]
        built = build(recipe, options, parts, warmup, len(codes.classes), align)
        self.info_: list[Info] = [a.info for a in built.alignments]
        self.source_names_ = [part.name for part in parts]
        self._install(built.learner, codes)

    def _install(self, learner: OnlineLearner, codes: Codes) -> None:
        self.learner_, self._codes, self.classes_ = learner, codes, codes.classes
        self.expert_names_ = learner.expert_names
        self.dim_ = learner.dim

    def _composition(self) -> tuple[Recipe, Options]:
        return door.composition(self.get_params(deep=False))

    def _known(self, codes: Codes, labels: Array, where: str) -> Array:
        new = codes.unseen(labels)
        if new:
            raise InputError(
                f"{where}: label {plain(new[0])!r} is not among classes={codes.classes.tolist()}; "
                "add it there, or leave classes=None to let new classes be learned"
            )
        return codes.of(labels)

    # -- predicting ---------------------------------------------------------------------------------------------

    def decision_function(self, X: Matrix) -> Array:
        """Combined scores: a column a class, or for two classes one number, positive for `classes_[1]`."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Matrix) -> Array:
        """The most likely class of each row by the model as it is; nothing is learned."""
        best = self._scores(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Matrix) -> Array:
        """A probability a class: the softmax of the scores, or the shares where they are on the simplex already."""
        scores = self._scores(X)
        return self.learner_.probabilities(scores)

    def predict_one(self, x: Any) -> Any:
        """The most likely class of one instance: a 1-d array, or a mapping from feature names to values."""
        best = self.learner_.quick_predict(x) if hasattr(self, "learner_") else -1
        if best < 0:
            row = self._row(x)
            self._need_a_class()
            best = self.learner_.predict_row(row) if row.ndim == 1 else int(self.learner_.scores(row)[0].argmax())
        return plain(self.classes_[best])

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Class -> probability for one instance."""
        row = self._row(x)
        self._need_a_class()
        p = self.learner_.probabilities(self.learner_.scores(row if row.ndim == 2 else row[None]))[0]
        return {plain(label): float(v) for label, v in zip(self.classes_, p, strict=True)}

    def _scores(self, X: Matrix) -> Array:
        check_is_fitted(self)
        X = self._matrix(X, reset=False)
        self._need_a_class()
        return self.learner_.scores(X)

    def _need_a_class(self) -> None:
        if not len(self.classes_):
            raise InputError("no class is known yet: learn a label first, or give classes=[...]")

    # -- learning -----------------------------------------------------------------------------------------------

    def partial_fit(
        self, X: Matrix, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> OnlineTransferClassifier:
        """Learn labelled target rows in order. Before any `fit` it starts a target-only learner (there is no source).

        A row whose label is None or NaN is not learned. `classes` lists the classes for such a cold start.
        `sample_weight` says how much each label counts for the classifiers and the class means; a weight of 0 is no
        label. Mistakes and bounds count every label as one.
        """
        cold = not hasattr(self, "learner_")
        with self._restored_on_error() if cold else nullcontext():
            X = self._matrix(X, reset=cold)
            labels, weight = door.weighted_labels(y, sample_weight, X.shape[0])
            if cold:
                self._cold_start(X, labels, classes)
            self._learn(X, labels, weight)
        return self

    def learn_one(self, x: Any, y: Any, weight: float = 1.0) -> OnlineTransferClassifier:
        """Learn one labelled target instance; with a missing label (None, NaN) nothing happens.

        A late label is learned the same way: keep the x, and call this when the label arrives. `weight` says how much
        the label counts; see `partial_fit`.
        """
        if not hasattr(self, "learner_"):
            return self.partial_fit(rows.first_row(x), as_labels([y], "y"), sample_weight=weight)
        code = self._codes.code(y)
        if weight == 1 and code >= 0 and self.learner_.quick_learn(x, code):
            return self
        row, weight = self._row(x), door.weight(weight)
        if code >= 0 and row.ndim == 1:
            self.learner_.learn_row(row, code, weight)
        elif code != MISSING:
            label = np.empty(1, dtype=object)
            label[0] = y
            self._learn(row if row.ndim == 2 else row[None], *door.weighted_labels(label, weight, 1))
        return self

    def predict_then_learn(self, X: Matrix, y: Any, sample_weight: Any = None) -> Array:
        """The prequential block path: the prediction made for each row before its label was learned.

        `sample_weight` as in `partial_fit`.
        """
        check_is_fitted(self)
        X = self._matrix(X, reset=False)
        labels, weight = door.weighted_labels(y, sample_weight, X.shape[0])
        self._need_a_class()
        return self._learn(X, labels, weight)

    def _learn(self, X: Matrix, labels: Array, weight: Array | None) -> Array:
        """Rows in order, in blocks; a class met for the first time gets a block of its own, predicted without it."""
        table, codes = self._codes, self._codes.of(labels)
        if (codes == Codes.NEW).any():
            if self.classes is not None:
                self._known(table, labels, "the stream")
            new = table.unseen(labels)
            moments = [self.learner_.source(i) for i in range(len(self.source_names_))]
            door.check_new_classes(self.max_classes, door.classes_met(moments), len(table.classes), new)
            table = table.grow(new)
            codes = table.of(labels)
        if not len(table.classes):  # no label yet, and none here
            return codes
        first = sorted(int(np.flatnonzero(codes == k)[0]) for k in range(len(self._codes.classes), len(table.classes)))
        predictions = np.empty(X.shape[0], dtype=np.int64)
        known = self.learner_.n_classes
        edges = sorted({0, X.shape[0], *first, *(i + 1 for i in first)})
        for a, b in itertools.pairwise(edges):
            if a in first:  # one class at a time, so that an interrupt leaves learner and classes together
                self.learner_.grow(known + 1)
                self._codes, self.classes_ = Codes(table.classes[: known + 1]), table.classes[: known + 1]
            part = None if weight is None else weight[a:b]
            trace = self.learner_.run(rows_from(X, a, b), codes[a:b], known or None if a in first else None, part)
            predictions[a:b] = trace.predictions
            known = self.learner_.n_classes
        self._codes, self.classes_ = table, table.classes
        return np.asarray(table.classes[predictions])

    def _cold_start(self, X: Matrix, labels: Array, classes: Any) -> None:
        recipe, options = self._composition()
        given = self.classes if self.classes is not None else classes
        known = labels[~is_missing(labels)]
        if given is None:
            door.check_targets(known)
        found = classes_of(known, "y") if given is None else door.given_classes(given)
        if given is None:
            door.check_new_classes(self.max_classes, 0, 0, found)
        else:
            door.check_classes(self.max_classes, found, True)
        codes = Codes(found)
        built = build(recipe, options, [], X[:0], len(codes.classes))
        self.info_, self.source_names_ = [], []
        self._install(built.learner, codes)

    # -- what is known so far -----------------------------------------------------------------------------------

    @property
    def weights_(self) -> Array:
        """Who is trusted: one weight an expert, in the order of `expert_names_`."""
        return self.learner_.weights

    @property
    def discrepancy_(self) -> Array:
        """How far apart each source and the target are, in its space: sum_k |A^T g_k|^2 over the classes both have."""
        return self.learner_.discrepancies()

    @property
    def mistakes_(self) -> int:
        """Mistakes so far, each counted when its label was learned."""
        return self.learner_.mistakes

    @property
    def seen_(self) -> int:
        """Labels learned so far."""
        return self.learner_.seen

    @property
    def hedge_loss_(self) -> float:
        """sum_t p_t . loss_t, what the mixer's weights suffered so far; this is what Hedge's bound is about."""
        return self.learner_.mixture_loss

    @property
    def bound_(self) -> float:
        """The guarantee for what was observed so far; `guarantee_` says in words what it bounds."""
        return self.learner_.bound

    @property
    def guarantee_(self) -> str:
        """What `bound_` bounds."""
        return self.learner_.guarantee

    # -- files --------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its place in the stream (safetensors; no pickle)."""
        check_is_fitted(self)
        params = self.get_params(deep=False)
        params["aligner"] = store.aligner_to_json(self.aligner)
        params["classes"] = (
            None if self.classes is None else store.labels_to_json(as_labels(list(self.classes), "classes"))
        )
        names = getattr(self, "feature_names_in_", None)
        store.save(
            path,
            self.learner_,
            self.classes_,
            {
                "params": params,
                "sources": self.source_names_,
                "features": None if names is None else [str(name) for name in names],
                "n_features": int(self.n_features_in_),
            },
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OnlineTransferClassifier:
        """Read a model; it resumes the stream exactly where it was saved (`info_` is not kept)."""
        learner, classes, header = store.load(path)
        params = dict(header["params"])
        params["aligner"] = store.aligner_from_json(params["aligner"])
        if params["classes"] is not None:
            params["classes"] = store.labels_from_json(params["classes"]).tolist()
        clf = cls(**params)
        clf.n_features_in_ = header["n_features"]
        if header["features"] is not None:
            clf.feature_names_in_ = np.asarray(header["features"], dtype=object)
            clf._names_of_domains = True
        clf.info_, clf.source_names_ = [], list(header["sources"])
        clf._install(learner, Codes(classes))
        return clf

    # -- the door -----------------------------------------------------------------------------------------------

    def _matrix(self, X: Matrix, reset: bool) -> Matrix:
        return rows.matrix(self, X, reset, door.given_dtype(self.dtype) if reset else self.learner_.dtype)

    def _row(self, x: Any) -> Matrix:
        """One instance, a 1-d array or a sparse 1 x m matrix, checked without scikit-learn's overhead."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return rows.one_row(x, self.n_features_in_, names, self.learner_.dtype)
