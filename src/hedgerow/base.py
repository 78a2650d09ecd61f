"""OnlineTransferEstimator: what a classifier and a regressor share.

Domains, inputs, the lock, what a model says of itself, files. Predicting and learning depend on the kind of target.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, Self, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from hedgerow.align import Info
from hedgerow.contributions import MOST_COLUMNS, Contributions, importances, of_row
from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.constants import Constants
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.core.values import Codes
from hedgerow.drift import Drift
from hedgerow.files import WRONG, StoredModel, read_model, unreadable, write_whole
from hedgerow.findings import WIDEST, Bins, column_numbers
from hedgerow.given import Asking
from hedgerow.inputs import (
    UNLABELLED,
    Inputs,
    Labelled,
    domain_of,
    labelled_domains,
    named_rows,
    split_rows,
)
from hedgerow.learner import OnlineLearner
from hedgerow.rows.partitions import PartitionedSource
from hedgerow.tables import Named, TableEncoder

if TYPE_CHECKING:
    from hedgerow.task import Shown

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

    class RegressorMixin:
        """scikit-learn's."""
else:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

__all__ = ["ClassifierMixin", "Fitted", "NamedValues", "OnlineTransferEstimator", "RegressorMixin"]

T = TypeVar("T")
BINNED = 500  # rows of a source, at least, of which the distribution of each column is kept
SAMPLE = 256  # rows of the sources that are kept for `feature_importances_`
CHANGEABLE = (
    "classes",
    "max_classes",
    "costs",
)  # parameters that matter after a fit: limits of later labels
ASKING = (
    "fit",
    "partial_fit",
    "predict",
    "predict_proba",
    "decision_function",
    "score",
)  # that metadata are routed to


class NamedValues(dict[str, float]):
    """Numbers by name, in a fixed order. NumPy reads it as an array, and `array` is one.

    Examples
    --------
    >>> weights = NamedValues(["source a", "target"], np.array([0.25, 0.75]))
    >>> weights["target"], max(weights, key=weights.get), np.asarray(weights).tolist()
    (0.75, 'target', [0.25, 0.75])
    """

    def __init__(self, names: Sequence[str], array: Array) -> None:
        super().__init__(zip(names, array.tolist(), strict=True))
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array, dtype=dtype, copy=copy)


class Fitted(Generic[T]):
    """An attribute of a fitted model by its path (`_learner` refuses a damaged one), read inside the lock."""

    def __init__(self, path: str, doc: str) -> None:
        self.path = attrgetter(path)
        self.__doc__ = doc

    def __get__(self, model: Any, kind: Any = None) -> T:
        if model is None:
            return self  # type: ignore[return-value]
        with model._fitted:
            return self.path(model)  # type: ignore[no-any-return]


class OnlineTransferEstimator(BaseEstimator):
    """What does not depend on the kind of target: domains, inputs, the lock, what a model says of itself, files.

    A fitted model is a learner, a table of codes, and how rows are read. Every public call that touches them holds one
    lock; after an error in a form of `fit`, every attribute is what it was.
    """

    coverage: float | Sequence[float] | None
    learner_: OnlineLearner
    info_: list[Info]
    source_names_: list[str]
    _codes: Codes
    _inputs: Inputs
    _params: dict[str, Any]  # those that it was fitted with
    _lock: threading.RLock
    _start: Callable[..., None]  # every form of `fit`: build the learner and install it
    _sample: tuple[Array, Array] | None
    _about: dict[str, dict[str, Any]]  # of the fit: importances, discrepancies, bins
    _is_regressor = False
    _takes_gaps = False  # whether rows of numbers may have gaps (NaN) from the start

    # what a pipeline hands over unasked where metadata are routed: skada's pipelines work without set_fit_request
    __metadata_request__fit = MappingProxyType({"sample_domain": True})
    __metadata_request__predict = MappingProxyType({"sample_domain": True, "allow_source": True})
    __metadata_request__score = __metadata_request__predict

    # -- the lock -----------------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return "_lock" in self.__dict__

    @property
    def _fitted(self) -> threading.RLock:
        """The lock of a fitted model."""
        lock: threading.RLock = self.__dict__.get("_lock") or check_is_fitted(self)
        return lock

    @property
    def _learner(self) -> OnlineLearner:
        """The learner, to be used inside the lock; refused if an error cut a step of it in two."""
        learner = self.learner_
        if learner.damaged:
            raise InputError(
                f"an error interrupted a step of learning ({learner.damaged}); load a saved model"
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
        self,
        learner: OnlineLearner,
        codes: Codes,
        inputs: Inputs,
        sources: list[str],
        infos: list[Info],
    ) -> None:
        with self.__dict__.setdefault("_lock", threading.RLock()):
            sampling = getattr(learner.plan, "sampling", "")
            infos = [*infos, *([Info(note=sampling)] if sampling else [])]
            self.learner_ = learner
            self._codes = codes
            self.source_names_ = sources
            self.info_ = infos
            self._inputs = replace(
                inputs, dtype=learner.dtype, gaps=learner.gaps, owner=type(self).__name__
            )
            self._params = self.get_params(deep=False)
            self._about = {}

    # -- the offline stage --------------------------------------------------------------------------------------------

    def fit(self, X: Matrix, y: Any, sample_domain: Any = None, sample_weight: Any = None) -> Self:
        """Fit on labelled source rows and unlabelled target rows.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (rows, features)
            The rows of all sources, and those of the target that are known in advance.
        y : array of shape (rows,)
            A label for every source row. Those of target rows are never looked at.
        sample_domain : array of whole numbers or names, or None
            The source that a row is of: a number >= 0, or a name (text, anything hashable). The target: a number < 0,
            or None among names. None: all rows are one source. Rows are presented to a classifier of their source, and
            to a pooled one, in the order given.
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
            sources, warmup, places = split_rows(X, y, sample_domain, sample_weight)
            if inputs is None:
                target = Named("the target", warmup)
                inputs, sources, warmup = Inputs.of_tables(
                    self._reading_params, sources, target, "source "
                )
            self._start(inputs, sources, warmup, places)
            self._keep_sample(sources)
        return self

    @property
    def _reading_params(self) -> Mapping[str, Any]:
        """The parameters that say how rows and tables are read."""
        return self.get_params(deep=False)

    def _first_rows(self, X: Any) -> tuple[Inputs | None, Any]:
        """Rows before any other: a matrix and how it is read, or a table that still needs an encoder."""
        return Inputs.of_rows(self._reading_params, X, type(self).__name__, self._takes_gaps)

    def _first_target_rows(self, X: Any) -> tuple[Inputs, Matrix]:
        """Rows of the target that start a learner without sources, as numbers, and how they are read."""
        inputs, X = self._first_rows(X)
        if inputs is None:
            inputs, _, X = Inputs.of_tables(self._reading_params, [], Named("the target", X))
        return inputs, X

    def fit_domains(
        self,
        sources: Mapping[str, Any] | Sequence[Any],
        warmup: Any = None,
        *,
        label: str | None = None,
    ) -> Self:
        """Fit on named domains, as `fit` does on rows.

        Parameters
        ----------
        sources : list or mapping
            Labelled domains: each a `Domain`, a file name, a table with names (pandas, polars, pyarrow) or `(X, y)`. A
            mapping gives them names. Or each a `ParquetSource`, or a `hedgerow.spark.SparkSource`, which need not fit
            into memory.
        warmup : Domain, file name, table, X or None
            Unlabelled rows of the target; labels that they have are not looked at.
        label : str or None
            The label column of files and tables.

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
        named = named_rows(sources, "{}")
        if not named and warmup is None:
            raise InputError(
                "no domain given; fit_domains needs at least one source or some warm-up rows"
            )
        partitioned = [rows for _, rows in named if isinstance(rows, PartitionedSource)]
        in_memory = [name for name, rows in named if not isinstance(rows, PartitionedSource)]
        if partitioned and in_memory:
            raise InputError(
                f"source {in_memory[0]!r} is in memory, source {partitioned[0].name!r} is not; give all of them in "
                "one of the two forms"
            )
        if warmup is not None and not isinstance(warmup, Domain):
            warmup = domain_of(warmup, UNLABELLED, label)[0]
        if partitioned:
            return self._fit_partitioned(partitioned, warmup)
        return self._fit_read(
            *Inputs.of_domains(self._reading_params, labelled_domains(named, label), warmup)
        )

    def _fit_read(self, inputs: Inputs, sources: Sequence[Labelled], warmup: Matrix) -> Self:
        """`fit_domains` of rows that are numbers already, read as `inputs` says."""
        with self._restored_on_error():
            self._start(inputs, sources, warmup)
            self._keep_sample(sources)
        return self

    def fit_and_read(
        self, sources: Mapping[str, Any] | Sequence[Any], label: str | None = None
    ) -> tuple[Self, list[Labelled]]:
        """`fit_domains` without rows of a target; also the rows as the model has read them."""
        named = named_rows(sources, "{}")
        if any(isinstance(rows, PartitionedSource) for _, rows in named):
            raise InputError(
                "sources that are read part by part cannot be kept: give them in memory, or keep no rows"
            )
        domains = labelled_domains(named, label)
        parts = Inputs.of_domains(self._reading_params, domains, None)
        return self._fit_read(*parts), parts[1]

    def refitted(self, sources: Sequence[Labelled]) -> Self:
        """A model with the same parameters, fitted on these rows of numbers, without rows of a target.

        It reads rows and tables as this one does.
        """
        with self._fitted:
            inputs = self._inputs
        warmup = np.empty((0, inputs.width), inputs.dtype)
        same = [replace(source, X=source.X.astype(inputs.dtype)) for source in sources]
        fresh: Self = clone(self)
        return fresh._fit_read(inputs, same, warmup)

    def _fit_partitioned(self, sources: Sequence[PartitionedSource], warmup: Domain | None) -> Self:
        """`fit_domains` of sources that are read part by part."""
        raise InputError(
            f"source {sources[0].name!r}: {type(self).__name__} needs its sources in memory; read them with "
            "hedgerow.read, or fit an OnlineTransferClassifier"
        )

    def _warn_of_no_sources(self) -> None:
        """Said before the first row of a model that was not fitted; `pa` has no use for sources."""
        if getattr(self, "method", None) != "pa":
            warnings.warn(
                "learn_one on a model that was not fitted: it has no sources and starts from nothing; call fit or "
                "fit_domains first, or partial_fit to start without sources on purpose",
                stacklevel=3,
            )

    # -- checking rows ------------------------------------------------------------------------------------------------

    n_features_in_ = Fitted[int](
        "_inputs.width", "The width of a row; of a model of tables, of its numbers."
    )
    table_ = Fitted[TableEncoder | None](
        "_inputs.encoder", "The encoder of a model of tables; else None."
    )

    def _contributions(
        self,
        x: Any,
        value: Callable[[Array], Array],
        reference: Any,
        usual: Array | None,
        what: str,
    ) -> Contributions:
        """What each column of x adds to the value, against a reference: a row, or `usual` if that is None."""
        inputs = self._inputs
        if reference is not None:
            usual = dense(np.atleast_2d(inputs.row(reference)))[0]
        if usual is None:
            raise InputError(
                "the mean row of the sources is not known: give reference=, a row to compare with"
            )
        row = dense(np.atleast_2d(inputs.row(x)))[0]
        usual = np.pad(
            usual, (0, len(row) - len(usual))
        )  # what experts say of a mean row is not known
        names, spans, cells = inputs.columns(x)
        return of_row(value, row, usual, names, spans, cells, what)

    def _keep_sample(self, sources: Sequence[Labelled]) -> None:
        """Some rows of each source, and where its rows fall in each column; of very many columns, none."""
        sources = [source for source in sources if len(source.labels)]
        if not sources or self._inputs.width > MOST_COLUMNS or isinstance(self._inputs, Asking):
            self._sample = None
            return
        each = max(SAMPLE // len(sources), 1)
        at = [(s, np.unique(np.linspace(0, len(s.labels) - 1, each).astype(int))) for s in sources]
        self._sample = (
            np.concatenate([dense(s.X[i]) for s, i in at]),
            np.concatenate([s.labels[i] for s, i in at]),
        )
        names, spans = self.spans
        if len(names) <= WIDEST:
            parts = [dense(s.X[:: max(len(s.labels) // BINNED, 1)]) for s in sources]
            bins = [Bins.of([column_numbers(X, span) for X in parts]) for span in spans]
            self._about = {
                "bins": {name: each.to_list() for name, each in zip(names, bins, strict=True)}
            }

    @property
    def spans(self) -> tuple[list[str], list[tuple[int, int]]]:
        """Columns as the user knows them: their names, and the first number and the width of each."""
        with self._fitted:
            names, spans, _ = self._inputs.columns(None)
        return names, spans or [(j, 1) for j in range(len(names))]

    def _loss(self, X: Array, labels: Array) -> float:
        """The mean loss of rows that are read already."""
        raise NotImplementedError

    @property
    def feature_importances_(self) -> NamedValues:
        """How much each column matters to the model as it is now: shares of one by name, as the user knows the columns.

        By permutation: how much the log-loss, or the squared error, of up to 256 rows of the sources rises if the
        column is shuffled among them. The rows are not part of a model file: a loaded model has the importances that it
        had when it was saved (`save`).
        """
        with self._fitted:
            if (sample := self.__dict__.get("_sample")) is None:
                if kept := self._about.get("importances"):
                    return NamedValues(list(kept), np.array(list(kept.values())))
                raise AttributeError(
                    "feature_importances_ needs rows of the sources, which a model without sources, with experts, or "
                    f"of more than {MOST_COLUMNS} columns does not have; fit it, or use explain_one(x, by_column=True)"
                )
            names, spans = self.spans
            X, labels = sample
            return NamedValues(names, importances(lambda rows: self._loss(rows, labels), X, spans))

    def keep(self, what: str, values: Mapping[str, float]) -> None:
        """Numbers by name that files of the model have, too."""
        with self._fitted:
            self._about = {**self._about, what: dict(values)}

    @property
    def kept_(self) -> Mapping[str, Mapping[str, Any]]:
        """What is kept of the fit, by name: importances of columns at the last save, discrepancies of sources, bins."""
        with self._fitted:
            return self._about

    @property
    def feature_names_in_(self) -> Array:
        """The names of the features, if it was fitted with names."""
        with self._fitted:
            names = self._inputs.names
        if names is None:
            raise AttributeError("the model was fitted without feature names")
        return names

    def name_features(self, names: Sequence[str]) -> None:
        """Name the features of a model that was fitted on bare rows; rows without names are still taken."""
        with self._fitted:
            before, _ = self.spans
            self._inputs = replace(self._inputs, names=np.array(names, dtype=object), bare=True)
            renamed = dict(zip(before, self.spans[0], strict=True))
            for what in {"bins", "importances"} & self._about.keys():
                values = {renamed[name]: value for name, value in self._about[what].items()}
                self._about = {**self._about, what: values}

    @property
    def experts_(self) -> Mapping[str, Any] | None:
        """The models of your own by name, as `from_bytes` takes them; None without any."""
        with self._fitted:
            return self._inputs.models if isinstance(self._inputs, Asking) else None

    def as_row(self, x: Any) -> Matrix:
        """One instance as the model reads it: a 1-d array, or a sparse 1 x m matrix; refused if it cannot be used."""
        with self._fitted:
            return self._inputs.row(x)

    def as_matrix(self, X: Matrix) -> Matrix:
        """Rows as the model reads them; refused if they cannot be used."""
        with self._fitted:
            return self._inputs.matrix(X)

    # -- what a fitted model says of itself ---------------------------------------------------------------------------

    expert_names_ = Fitted[list[str]](
        "learner_.expert_names", "Expert names, in the order of `weights_`."
    )
    dim_ = Fitted[int]("learner_.dim", "The largest dimension of a space.")
    constants_ = Fitted[Constants](
        "learner_.constants", "What never changes after `fit`; models of one fit share it."
    )
    seen_ = Fitted[int]("_learner.seen", "Labels learned so far.")
    bound_ = Fitted[float](
        "_learner.bound", "The guarantee for what was observed so far: a bound of `guarantee_`."
    )
    guarantee_ = Fitted[str]("_learner.guarantee", "What `bound_` bounds, in words.")
    drift_ = Fitted[Drift](
        "_learner.drift", "Whether the target seems to have changed: alarms, how near the next is."
    )

    @property
    def weights_(self) -> NamedValues:
        r"""The current weight of each expert by name, summing to one, :math:`p_i \propto w_i`."""
        with self._fitted:
            return NamedValues(self._learner.expert_names, self.learner_.weights)

    def plot(self) -> Any:
        """Weights of the experts and, of a classifier, discrepancies of the sources: the axes of matplotlib."""
        from hedgerow.task import plot

        with self._fitted:
            return plot(self)

    def diagram(self) -> Shown:
        """scikit-learn's own diagram: the parameters."""
        from hedgerow.task import Shown

        return Shown(str(super()._html_repr()))

    def _html_repr(self) -> str:
        """What a notebook shows (scikit-learn asks for it by this name): a fitted model itself, else its parameters."""
        if not self.__sklearn_is_fitted__() or self.learner_.damaged:
            return str(super()._html_repr())
        from hedgerow.task import html

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
                asked = {
                    method: dict(getattr(routing, method).requests)
                    for method in ASKING
                    if hasattr(self, method)
                }
            # what it was fitted with; only the limits of later labels can be changed afterwards
            now = self.get_params(deep=False)
            params = {**self._params, **{name: now[name] for name in CHANGEABLE if name in now}}
            params.pop("experts", None)
            parts = (
                self._learner,
                self._codes.classes,
                params,
                asked,
                self.source_names_,
                self._inputs,
                self._about,
            )
            return StoredModel(*parts).to_bytes(constants)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        constants: Constants | None = None,
        name: str = "the model",
        experts: Mapping[str, Any] | None = None,
    ) -> Self:
        """The inverse of `to_bytes`.

        Parameters
        ----------
        data : bytes
            What `to_bytes` made; it is checked before anything is made of it.
        constants : Constants or None
            Those of a model of the same fit, to be shared, or because the file has none.
        name : str
            Stands for the data in errors.
        experts : mapping or None
            The models that it was fitted with, by name; refused if their answers are not what they were.

        Returns
        -------
        OnlineTransferClassifier
        """
        return cls._of_stored(StoredModel.from_bytes(data, name, constants, experts), name)

    @classmethod
    def _of_stored(cls, stored: StoredModel, name: str) -> Self:
        import sklearn

        if stored.is_regressor != cls._is_regressor:
            other = "Regressor" if stored.is_regressor else "Classifier"
            raise InputError(
                f"{name} is a model of OnlineTransfer{other}; load it with that class, or load_model"
            )
        try:
            model = cls(**stored.params)
            with sklearn.config_context(enable_metadata_routing=True):
                for method, asked in (stored.requests or {}).items():
                    if asked:
                        getattr(model, f"set_{method}_request")(**asked)
            model._install(stored.learner, Codes(stored.classes), stored.inputs, stored.sources, [])
            model._about = stored.about
            if isinstance(stored.inputs, Asking):
                model.experts = dict(stored.inputs.models)  # type: ignore[attr-defined]
        except WRONG as error:
            raise unreadable(name, stored.version, error) from error
        return model

    def save(self, file: str | os.PathLike[str] | BinaryIO, *, constants: bool = True) -> None:
        """Save the model to a path, where it appears whole or not at all, or to a file opened for bytes."""
        if self.__dict__.get("_sample") is not None:
            self.keep("importances", self.feature_importances_)
        data = self.to_bytes(constants=constants)
        if isinstance(file, str | os.PathLike):
            write_whole(file, data)
        else:
            file.write(data)

    @classmethod
    def load(
        cls,
        file: str | os.PathLike[str] | BinaryIO,
        *,
        constants: Constants | None = None,
        experts: Mapping[str, Any] | None = None,
    ) -> Self:
        """Load a model; it resumes the stream exactly where it was saved (`info_` is not kept).

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
        data, name = read_model(file)
        return cls.from_bytes(data, constants=constants, name=name, experts=experts)

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
