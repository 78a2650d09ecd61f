"""OnlineTransferClassifier: scikit-learn's verbs and river's verbs over one learner.

What does not depend on the kind of target (domains, the lock, what a model says of itself, files) is in
`OnlineTransferEstimator`; classes and labels are in the classifier.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from hedgerow.align import Aligner, Info
from hedgerow.core.arrays import DENSE_LIMIT, Array, Matrix, cast, check_finite, rows_from
from hedgerow.core.constants import Constants
from hedgerow.core.domains import Domain, same_columns
from hedgerow.core.errors import InputError
from hedgerow.core.frame import Frame
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.labels import MISSING, Codes, as_labels, classes_of, is_missing, plain
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.source_rows import LabelledSource
from hedgerow.drift import Drift
from hedgerow.files import StoredModel, read_file, write_whole
from hedgerow.heads import Head
from hedgerow.inputs import (
    Inputs,
    Labelled,
    all_classes,
    check_classes,
    check_new_classes,
    check_source_labels,
    check_target_rows,
    check_targets,
    checked_dtype,
    checked_labels,
    checked_weights,
    first_row,
    fixed_classes,
    one_weight,
    pooled_order,
    sample_domains,
    source_rows,
    table_of,
    weighted_labels,
)
from hedgerow.learner import OnlineLearner, Prediction, Trace
from hedgerow.methods import AlignFit, Reading, Training, build, check_merges, choose, fit_aligner
from hedgerow.mix import Mixer
from hedgerow.tables.encoder import TableEncoder
from hedgerow.tables.learning import Named

if TYPE_CHECKING:
    from hedgerow.show import Shown

    class BaseEstimator:
        """scikit-learn's, which has no types of its own."""

        get_params: Callable[..., dict[str, Any]]
        set_params: Callable[..., Self]
        get_metadata_routing: Callable[[], Any]
        set_fit_request: Callable[..., Self]
        set_partial_fit_request: Callable[..., Self]
        set_predict_request: Callable[..., Self]
        set_predict_proba_request: Callable[..., Self]
        set_decision_function_request: Callable[..., Self]
        set_score_request: Callable[..., Self]

        def __sklearn_tags__(self) -> Any: ...
        def __getstate__(self) -> dict[str, Any]: ...
        def __setstate__(self, state: dict[str, Any]) -> None: ...
        def _html_repr(self) -> str: ...

    class ClassifierMixin:
        """scikit-learn's."""
else:
    from sklearn.base import BaseEstimator, ClassifierMixin

__all__ = ["Explanation", "Explanations", "NamedValues", "OnlineTransferClassifier", "OnlineTransferEstimator"]

PREDICTED = 1024  # rows that are predicted before a signal is looked at
ASKING = ("fit", "partial_fit", "predict", "predict_proba", "decision_function", "score")  # that metadata are routed to


class NamedValues(Mapping[str, float]):
    """Numbers by name, in a fixed order. NumPy reads it as an array, and `array` is one.

    Examples
    --------
    >>> weights = NamedValues(["source a", "target"], np.array([0.25, 0.75]))
    >>> weights["target"], max(weights, key=weights.get), np.asarray(weights).tolist()
    (0.75, 'target', [0.25, 0.75])
    """

    def __init__(self, names: Sequence[str], array: Array) -> None:
        self.array = array
        self._values: dict[str, float] = dict(zip(names, array.tolist(), strict=True))

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return repr(self._values)


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
    """

    label: Hashable
    probabilities: dict[Hashable, float]
    votes: dict[str, Hashable]
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
        """How much each expert was trusted; a column an expert."""
        return np.concatenate([t.weights for t in self._traces] or [np.empty((0, len(self._learner.expert_names)))])


class OnlineTransferEstimator(BaseEstimator):
    """What does not depend on the kind of target: domains, inputs, the lock, what a model says of itself, files.

    A fitted model is a learner, a table of codes, and how rows are read. Every public call that touches them holds one
    lock; after an error in a form of `fit`, every attribute is what it was.
    """

    dtype: str | None
    learner_: OnlineLearner
    info_: list[Info]
    source_names_: list[str]
    partitions_: Any  # what `hedgerow.dask.fit` has read
    _codes: Codes
    _inputs: Inputs
    _params: dict[str, Any]  # those that it was fitted with
    _lock: threading.RLock

    # -- the lock -----------------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return "_lock" in self.__dict__

    @property
    def _fitted(self) -> threading.RLock:
        """The lock of a fitted model."""
        lock: threading.RLock | None = self.__dict__.get("_lock")
        if lock is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )
        return lock

    @property
    def _learner(self) -> OnlineLearner:
        """The learner, to be used inside the lock; refused if an error cut a step of it in two."""
        learner = self.learner_
        if learner.damaged:
            raise InputError(
                f"an error cut a step of learning in two ({learner.damaged}); load the model as it was saved last"
            )
        return learner

    @contextmanager
    def _restored_on_error(self) -> Iterator[None]:
        """If anything inside fails, every attribute is again what it was."""
        with self.__dict__.get("_lock") or nullcontext():
            before = dict(vars(self))
            try:
                yield
            except BaseException:
                self.__dict__.clear()
                self.__dict__.update(before)
                raise

    def _install(
        self, learner: OnlineLearner, codes: Codes, inputs: Inputs, sources: list[str], infos: list[Info]
    ) -> None:
        with self.__dict__.setdefault("_lock", threading.RLock()):
            self.learner_, self._codes, self.source_names_, self.info_ = learner, codes, sources, infos
            self._inputs = replace(inputs, dtype=learner.dtype, gaps=learner.gaps, owner=type(self).__name__)
            self._params = self.get_params(deep=False)

    # -- the offline stage --------------------------------------------------------------------------------------------

    def fit(self, X: Matrix, y: Any, sample_domain: Any = None, sample_weight: Any = None) -> Self:
        """Start from labelled sources and unlabelled target rows.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (rows, features)
            The rows of all sources, and those of the target that are known in advance.
        y : array of shape (rows,)
            A label for every source row. Those of target rows are never looked at.
        sample_domain : array of whole numbers, or None
            >= 0: the number of the source that a row is of; < 0: the target. None: all rows are one source. Rows are
            presented to a classifier of their source, and to a pooled one, in the order given.
        sample_weight : array or None
            How much each source row counts for the classifiers and the means of its source (not for the scaling and
            the alignment, which have no labels); a row of weight 0 is left out.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For rows, labels or options that cannot be used; the model is then what it was before.
        """
        if y is None:
            raise InputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None; "
                "give a label for every source row"
            )
        with self._restored_on_error():
            inputs, X = self._first_rows(X)
            labels = checked_labels(y, X.shape[0])
            domain = sample_domains(sample_domain, X.shape[0])
            weight = checked_weights(sample_weight, X.shape[0], domain >= 0)
            sources = [
                Labelled(name, X[at], labels[at], at, None if weight is None else weight[at])
                for name, at in source_rows(domain, weight)
            ]
            warmup = X[domain < 0]
            if inputs is None:
                target = Named("the target", warmup)
                inputs, sources, warmup = Inputs.of_tables(self.get_params(deep=False), sources, target, "source ")
            self._start(inputs, sources, warmup, [source.positions for source in sources])
        return self

    def _first_rows(self, X: Any) -> tuple[Inputs | None, Any]:
        """Rows before any other: a matrix and how it is read, or a table that still needs an encoder."""
        frame = table_of(self.get_params(deep=False), X)
        if frame is not None:
            return None, frame
        return Inputs.of_rows(X, checked_dtype(self.dtype), type(self).__name__)

    def fit_domains(
        self,
        sources: Sequence[Domain],
        warmup: Domain | None = None,
        *,
        together: Array | None = None,
        align: AlignFit = fit_aligner,
    ) -> Self:
        """Start from named domains, as `fit` does from rows.

        Parameters
        ----------
        sources : sequence of Domain
            Each with labels and a name of its own.
        warmup : Domain or None
            Unlabelled rows of the target.
        together : array or None
            The order in which a pooled classifier sees the rows of all sources: a permutation of them. None: source
            after source.
        align : callable
            `align(aligner, source, codes, warmup)` may return a remembered alignment.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For domains or options that cannot be used; the model is then what it was before.

        Examples
        --------
        >>> from hedgerow import OnlineTransferClassifier, load
        >>> digits = load("digits")
        >>> clf = OnlineTransferClassifier("homotlms").fit_domains([digits["thin"], digits["tilted"]])
        >>> list(clf.weights_)
        ['source thin', 'source tilted', 'target']
        """
        if not sources and warmup is None:
            raise InputError("no domain given; fit_domains needs at least one source or some warm-up rows")
        for d in sources:
            if d.y is None:
                raise InputError(f"source {d.name!r} has no labels; pass it as warm-up, or give its labels")
        positions = pooled_order(together, [len(d) for d in sources])
        parts = Inputs.of_domains(self.get_params(deep=False), sources, warmup, positions)
        with self._restored_on_error():
            self._start(*parts, positions, align)
        return self

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
        positions: Sequence[Array] | None = None,
        align: AlignFit = fit_aligner,
        codes: Codes | None = None,
    ) -> None:
        """Every form of `fit`, and a cold start, whose codes are known: one `Training`, one build."""
        method, options = choose(self.get_params(deep=False), inputs.encoder)
        names = [source.name for source in sources]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"two sources are called {twice!r}; give each a name of its own")
        codes = self._codes_of(sources) if codes is None else codes
        rows = [source.rows(codes.classes, warmup.dtype) for source in sources]
        built = build(method, Training(names, rows, warmup, len(codes.classes), options, positions, align))
        self._install(built.learner, codes, inputs, names, built.infos)

    def _codes_of(self, sources: Sequence[Labelled] | Sequence[LabelledSource]) -> Codes:
        """The table between the targets of all sources and the codes that a learner has."""
        raise NotImplementedError

    # -- checking rows ------------------------------------------------------------------------------------------------

    @property
    def n_features_in_(self) -> int:
        """The width of a row; of a model of tables, of its numbers."""
        with self._fitted:
            return self._inputs.width

    @property
    def feature_names_in_(self) -> Array:
        """The names of the features, if it was fitted with names."""
        with self._fitted:
            names = self._inputs.names
        if names is None:
            raise AttributeError("the model was fitted without feature names")
        return names

    @property
    def table_(self) -> TableEncoder | None:
        """The encoder of a model of tables; None for rows of numbers."""
        with self._fitted:
            return self._inputs.encoder

    def name_features(self, names: Sequence[str]) -> None:
        """Name the features of a model that was fitted on bare rows; rows without names are still taken."""
        with self._fitted:
            self._inputs = replace(self._inputs, names=np.array(names, dtype=object), bare=True)

    def as_row(self, x: Any) -> Matrix:
        """One instance as the model reads it: a 1-d array, or a sparse 1 x m matrix; refused if it cannot be used."""
        with self._fitted:
            return self._inputs.row(x)

    def as_matrix(self, X: Matrix) -> Matrix:
        """Rows as the model reads them; refused if they cannot be used."""
        with self._fitted:
            return self._inputs.matrix(X)

    # -- what a fitted model says of itself ---------------------------------------------------------------------------

    @property
    def expert_names_(self) -> list[str]:
        """Expert names, in the order of `weights_`."""
        with self._fitted:
            return self.learner_.expert_names

    @property
    def method_(self) -> str:
        """The method that it was fitted with, whatever `set_params` has changed since."""
        with self._fitted:
            return str(self._params["method"])

    @property
    def dim_(self) -> int:
        """The largest dimension of a space."""
        with self._fitted:
            return self.learner_.dim

    @property
    def weights_(self) -> NamedValues:
        r"""How much each expert is trusted now: shares of one by name, :math:`p_i \propto w_i`."""
        with self._fitted:
            return NamedValues(self._learner.expert_names, self.learner_.weights)

    @property
    def discrepancy_(self) -> NamedValues:
        r"""How far each source and the target are apart in its space, by the source's name (Eq. 12).

        :math:`\sum_k \lVert A^\top g_k \rVert^2` over the classes that both have shown, :math:`g_k` being the
        difference of their means.
        """
        with self._fitted, uninterrupted(), one_blas_thread:
            return NamedValues(self.source_names_, self._learner.discrepancies())

    @property
    def mistakes_(self) -> int:
        """Mistakes so far, each counted when its label was learned."""
        with self._fitted:
            return self._learner.mistakes

    @property
    def seen_(self) -> int:
        """Labels learned so far."""
        with self._fitted:
            return self._learner.seen

    @property
    def hedge_loss_(self) -> float:
        r""":math:`\sum_t p_t \cdot \ell_t`, what the mixer's weights suffered so far: Hedge's bound is about it."""
        with self._fitted:
            return self._learner.mixture_loss

    @property
    def bound_(self) -> float:
        """The guarantee for what was observed so far; `guarantee_` says in words what it bounds."""
        with self._fitted:
            return self._learner.bound

    @property
    def guarantee_(self) -> str:
        """What `bound_` bounds."""
        with self._fitted:
            return self._learner.guarantee

    @property
    def drift_(self) -> Drift:
        """Whether the target seems to have changed: alarms so far, and how near the next one is."""
        with self._fitted:
            return self._learner.drift

    @property
    def constants_(self) -> Constants:
        """What never changes after `fit`; models of one fit share it (`save(constants=False)`)."""
        with self._fitted:
            return self.learner_.constants

    def plot(self) -> Any:
        """Weights of the experts and discrepancies of the sources, drawn with matplotlib: two axes."""
        from hedgerow.show import plot

        with self._fitted:
            return plot(self)

    def diagram(self) -> Shown:
        """scikit-learn's own diagram: the parameters."""
        from hedgerow.show import Shown

        return Shown(str(super()._html_repr()))

    def _html_repr(self) -> str:
        """What a notebook shows (scikit-learn asks for it by this name): a fitted model itself, else its parameters."""
        if not self.__sklearn_is_fitted__() or self.learner_.damaged:
            return str(super()._html_repr())
        from hedgerow.show import html

        with self._fitted:
            return html(self)

    # -- files and copies ---------------------------------------------------------------------------------------------

    def to_bytes(self, *, constants: bool = True) -> bytes:
        """The model and its place in the stream as the content of a file (safetensors; no pickle).

        Parameters
        ----------
        constants : bool
            False keeps only what the labels changed; `from_bytes(.., constants=clf.constants_)` reads that.

        Returns
        -------
        bytes
        """
        with self._fitted:
            asked = None
            if "_metadata_request" in vars(self):
                routing = self.get_metadata_routing()
                asked = {method: dict(getattr(routing, method).requests) for method in ASKING}
            # what it was fitted with; only the limits of later labels can be changed afterwards
            now = self.get_params(deep=False)
            params = {**self._params, **{name: now[name] for name in ("classes", "max_classes")}}
            names = self._inputs.names
            return StoredModel(
                self._learner, self._codes.classes, params, asked, self.source_names_, self._inputs.width,
                None if names is None else [str(name) for name in names], self._inputs.encoder,
            ).to_bytes(constants)  # fmt: skip

    @classmethod
    def from_bytes(cls, data: bytes, *, constants: Constants | None = None, name: str = "the model") -> Self:
        """The inverse of `to_bytes`.

        Parameters
        ----------
        data : bytes
            What `to_bytes` made; it is checked before anything is made of it.
        constants : Constants or None
            Those of a model of the same fit, to be shared, or because the file has none.
        name : str
            Stands for the data in errors.

        Returns
        -------
        OnlineTransferClassifier
        """
        import sklearn

        stored = StoredModel.from_bytes(data, name, constants)
        try:
            model = cls(**stored.params)
            with sklearn.config_context(enable_metadata_routing=True):
                for method, asked in (stored.requests or {}).items():
                    if asked:
                        getattr(model, f"set_{method}_request")(**asked)
            names = None if stored.features is None else np.array(stored.features, dtype=object)
            inputs = Inputs(stored.n_features, names, encoder=stored.encoder)
            model._install(stored.learner, Codes(stored.classes), inputs, stored.sources, [])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{name} is damaged ({error})") from error
        return model

    def save(self, file: str | os.PathLike[str] | BinaryIO, *, constants: bool = True) -> None:
        """Write the model to a path, where it appears whole or not at all, or to a file opened for bytes."""
        data = self.to_bytes(constants=constants)
        if isinstance(file, str | os.PathLike):
            write_whole(file, data)
        else:
            file.write(data)

    @classmethod
    def load(cls, file: str | os.PathLike[str] | BinaryIO, *, constants: Constants | None = None) -> Self:
        """Read a model; it resumes the stream exactly where it was saved (`info_` is not kept).

        Examples
        --------
        >>> import tempfile
        >>> from hedgerow import OnlineTransferClassifier
        >>> clf = OnlineTransferClassifier("pa").partial_fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     clf.save(f"{folder}/model.safetensors")
        ...     again = OnlineTransferClassifier.load(f"{folder}/model.safetensors")
        >>> again.method, again.seen_, again.predict_one([0.0, 2.0])
        ('pa', 2, 'a')
        """
        if isinstance(file, str | os.PathLike):
            return cls.from_bytes(read_file(file), constants=constants, name=str(file))
        return cls.from_bytes(file.read(), constants=constants, name=str(getattr(file, "name", "the file")))

    def __getstate__(self) -> dict[str, Any]:
        """For copies: a lock of their own, and the learner as it is between two steps."""
        with self.__dict__.get("_lock") or nullcontext():
            state = dict(super().__getstate__())
            if state.pop("_lock", None) is not None:
                state["learner_"] = self.learner_.copy()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "learner_" in state:
            self._lock = threading.RLock()


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
        the sources have, and sources of up to 10,000.
    dtype : str or None
        "float64", "float32" or None (as the data comes). Our own learner computes in float64 and does not read it.
    random_state : int or None
        Seed for parts that draw at random (landmarks; nothing in the paper's methods). None is 0.
    table : mapping or None
        What to know of a table's columns: a dict with names under "drop", "keep", "id", "time" and "text".

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

    # -- classes ------------------------------------------------------------------------------------------------------

    @property
    def classes_(self) -> Array:
        """The labels, in the order of the columns of `predict_proba`; one met in the stream stands last."""
        with self._fitted:
            return self._codes.classes

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
        for source in sources:
            check_source_labels(source.name, source.labels)
        listed = self.classes is not None
        classes = fixed_classes(self.classes) if listed else all_classes([s.labels for s in sources])
        codes = Codes(classes)
        check_classes(self.max_classes, codes.classes, listed)
        for source in sources:
            self._check_known(codes, source.labels, f"source {source.name!r}")
        return codes

    def _check_known(self, codes: Codes, labels: Array, where: str) -> None:
        new = codes.unseen(labels)
        if new:
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

    def _need_a_class(self) -> None:
        if not len(self._codes.classes):
            raise InputError("no class is known yet: learn a label first, or give classes=[...]")

    # -- predicting ---------------------------------------------------------------------------------------------------

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
        """
        with self._fitted:
            return np.asarray(self.classes_[self._scores(X, sample_domain, allow_source).argmax(axis=1)])

    def predict_proba(self, X: Matrix, sample_domain: Any = None, *, allow_source: bool = False) -> Array:
        """A probability a class: the softmax of the scores, or the shares where they are on the simplex already.

        Parameters as in `predict`; a column a class, in the order of `classes_`.
        """
        with self._fitted:
            return self._learner.probabilities(self._scores(X, sample_domain, allow_source))

    def decision_function(self, X: Matrix, sample_domain: Any = None, *, allow_source: bool = False) -> Array:
        """Combined scores: a column a class, or for two classes one number, positive for `classes_[1]`.

        Parameters as in `predict`.
        """
        with self._fitted:
            scores = self._scores(X, sample_domain, allow_source)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def score(
        self, X: Matrix, y: Any, sample_weight: Any = None, *, sample_domain: Any = None, allow_source: bool = False
    ) -> float:
        """The share of rows whose label is predicted; `sample_domain` and `allow_source` as in `predict`."""
        from sklearn.metrics import accuracy_score

        predictions = self.predict(X, sample_domain, allow_source=allow_source)
        return float(accuracy_score(y, predictions, sample_weight=sample_weight))

    def predict_one(self, x: Any) -> Hashable:
        """The most likely class of one instance: a 1-d array, or a mapping from feature names to values."""
        with self._fitted:
            return plain(self._codes.classes[self._predict_row(x).code])  # type: ignore[no-any-return]

    def predict_proba_one(self, x: Any) -> dict[Hashable, float]:
        """Class -> probability for one instance."""
        with self._fitted:
            return self._shares(self._predict_row(x))

    def explain_one(self, x: Any) -> Explanation:
        """The prediction for one instance, its probabilities, and what each expert says and weighs.

        Examples
        --------
        >>> clf = OnlineTransferClassifier("homotlms").fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        >>> explanation = clf.explain_one([0.0, 2.0])
        >>> explanation.label, explanation.votes
        ('a', {'source 0': 'a', 'target': 'a'})
        """
        with self._fitted:
            prediction = self._predict_row(x)
            names, labels = self.expert_names_, self.classes_[prediction.votes]
            return Explanation(
                plain(self.classes_[prediction.code]),
                self._shares(prediction),
                {name: plain(label) for name, label in zip(names, labels, strict=True)},
                dict(zip(names, prediction.weights.tolist(), strict=True)),
            )

    def _predict_row(self, x: Any) -> Prediction:
        row, learner = self._inputs.row(x), self._learner
        self._need_a_class()
        return learner.predict_row(row) if row.ndim == 1 else learner.predict_sparse_row(row)

    def _shares(self, prediction: Prediction) -> dict[Hashable, float]:
        p = self.learner_.probabilities(prediction.scores[None])[0]
        return {plain(label): float(v) for label, v in zip(self.classes_, p, strict=True)}

    def _scores(self, X: Matrix, sample_domain: Any = None, allow_source: bool = False) -> Array:
        X, learner = self._inputs.matrix(X), self._learner
        check_target_rows(sample_domain, X.shape[0], allow_source)
        self._need_a_class()
        parts = []
        for a in range(0, max(X.shape[0], 1), PREDICTED):
            with uninterrupted(), one_blas_thread:
                parts.append(learner.scores(rows_from(X, a, min(a + PREDICTED, X.shape[0]))))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

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
        """
        if self.__sklearn_is_fitted__():
            with self._fitted:
                self._check_repeated(classes)
                X = self._inputs.matrix(X)
                self._learn(X, *weighted_labels(y, sample_weight, X.shape[0]))
            return self
        with self._restored_on_error():
            inputs, X = self._first_rows(X)
            if inputs is None:
                inputs, _, X = Inputs.of_tables(self.get_params(deep=False), [], Named("the target", X))
            labels, weight = weighted_labels(y, sample_weight, X.shape[0])
            self._start(inputs, [], X[:0], codes=self._cold_codes(labels, classes))
            self._learn(cast(X, self.learner_.dtype), labels, weight)
        return self

    def _check_repeated(self, classes: Any) -> None:
        if classes is not None and set(as_labels(list(classes), "classes").tolist()) != set(self.classes_.tolist()):
            raise InputError(
                f"classes={list(classes)}: the model has {self.classes_.tolist()}; leave classes out: a new one is "
                "learned when its first label comes"
            )

    def _cold_codes(self, labels: Array, classes: Any) -> Codes:
        fixed, known = self.classes if self.classes is not None else classes, labels[~is_missing(labels)]
        if fixed is None:
            check_targets(known)
            met = classes_of(known, "y")
            check_new_classes(self.max_classes, 0, 0, met)
        else:
            met = fixed_classes(fixed)
            check_classes(self.max_classes, met, True)
        return Codes(met)

    def learn_one(self, x: Any, y: Any, weight: float = 1.0) -> Self:
        """Learn one target instance. Of one without a label (None, NaN) our own learner uses the row, others nothing.

        A late label is learned the same way: keep the x, and call this when the label arrives. `weight` says how much
        the label counts; see `partial_fit`.
        """
        if "_lock" not in self.__dict__:
            return self.partial_fit(first_row(x), as_labels([y], "y"), sample_weight=weight)
        with self._fitted:
            code, row, learner = self._codes.code(y), self._inputs.row(x), self._learner
            weight = 1.0 if type(weight) is float and weight == 1.0 else one_weight(weight)
            if code == MISSING and not learner.learns_unlabelled:
                return self
            if row.ndim == 1 and (code >= 0 or (code == MISSING and learner.n_classes)):
                learner.learn_row(row, code, weight)
            else:
                label = np.empty(1, dtype=object)
                label[0] = y
                self._learn(row if row.ndim == 2 else row[None], *weighted_labels(label, weight, 1))
        return self

    def predict_then_learn(self, X: Matrix, y: Any, sample_weight: Any = None) -> Array:
        """The prequential block path ("test-then-train"): each row is predicted before its label is learned.

        Parameters as in `partial_fit`; the predictions are those of `predict_one` and `learn_one` in turns.

        Examples
        --------
        >>> clf = OnlineTransferClassifier("pa", preprocess="unit").partial_fit([[0.0, 1.0]], ["a"])
        >>> clf.predict_then_learn([[1.0, 0.0], [2.0, 0.0]], ["b", "b"]).tolist(), clf.mistakes_
        (['a', 'b'], 1)
        """
        return self.explain_then_learn(X, y, sample_weight).labels

    def explain_then_learn(self, X: Matrix, y: Any, sample_weight: Any = None) -> Explanations:
        """As `predict_then_learn`, with the probabilities, votes and weights of every prediction."""
        with self._fitted:
            X = self._inputs.matrix(X)
            labels, weight = weighted_labels(y, sample_weight, X.shape[0])
            self._need_a_class()
            traces = self._learn(X, labels, weight)  # which may bring classes
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
