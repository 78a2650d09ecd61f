"""OnlineTransferRegressor: numbers instead of classes, with intervals whose coverage is kept on the stream."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from hedgerow.base import Fitted, OnlineTransferEstimator, RegressorMixin
from hedgerow.contributions import Contributions, html, summary
from hedgerow.core.arrays import DENSE_LIMIT, Array, Matrix, cast
from hedgerow.core.constants import Constants
from hedgerow.core.errors import InputError
from hedgerow.core.values import Codes, is_missing, objects
from hedgerow.coverage import coverages, level_of
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.files import StoredModel, read_model
from hedgerow.inputs import (
    Inputs,
    check_sources,
    check_target_rows,
    first_row,
    one_weight,
    weighted_labels,
)
from hedgerow.regression.learner import LARGEST_Y, NumberTrace, RegressionLearner
from hedgerow.series import check_ahead, lagged, lags_of, seasons_of

__all__ = ["NumberExplanation", "OnlineTransferRegressor", "load_model"]


class NumberExplanation(NamedTuple):
    """One prediction with its reasons.

    Attributes
    ----------
    prediction : float
        The number predicted.
    intervals : dict
        Coverage -> (low, high).
    experts : dict
        Expert -> what it predicts by itself.
    weights : dict
        Expert -> its share in the prediction. Shares sum to one; a stack of experts may make some of them negative.
    contributions : Contributions or None
        What each column added to the prediction, where it was asked for.
    """

    prediction: float
    intervals: dict[float, tuple[float, float]]
    experts: dict[str, float]
    weights: dict[str, float]
    contributions: Contributions | None = None

    def __str__(self) -> str:
        intervals = [
            f"{low:.4g} to {high:.4g} ({level:.0%})"
            for level, (low, high) in self.intervals.items()
        ]
        prediction = ", ".join([f"{self.prediction:.4g}", *intervals])
        return summary(prediction, self.experts, self.weights, self.contributions)

    def _repr_html_(self) -> str:
        return html(self)


class OnlineTransferRegressor(RegressorMixin, OnlineTransferEstimator):
    r"""Regressor for online transfer learning: fit on labelled sources, then predict and learn the target's stream.

    Use it where rows of other domains (stores, stations, machines, patients) have their numbers now, and those of a new
    one come one after the other, each after its prediction. Where labels of the target are plentiful and nothing
    shifts, boosting that is refitted now and then predicts better.

    The prediction is a mixture of experts: regressions that learn from every label; corrections of the level and scale
    of the sources' trees, which is what most transfer of numbers needs; rows nearby; the target's moving average; the
    last known number, and a regression on it and the one before it (`known=` for labels that are late). The
    experts stay within the range of y so far; by as much as a linear model leaves it, all of them do. One label widens
    that range by three of its lengths at the most, so that an outlier does little harm. For any sequence, with
    :math:`f_{t,h}` what expert h of H predicts so, :math:`W` the length of that range with its margins, :math:`o` what
    labels outside of it may have cost and :math:`A = 3\log_2(1 + T (W/W_1)^4)`,

    .. math:: \sum_t (\hat y_t - y_t)^2 \le \min_h \sum_t (f_{t,h} - y_t)^2 + W^2 \left[2 \ln H + A + 1\right] + o,

    which is `bound_`. Intervals follow the stream: their share of misses is steered to 1 - coverage (conformal PID's
    quantile tracker, scores relative to a local scale). That coverage is empirical: it is measured, not proven.

    Parameters
    ----------
    coverage : float or sequence of float
        The share of labels that `predict_interval` is to contain, between 0 and 1; several have a tracker each.
    table : mapping or None
        What to know of a table's columns: a dict with names under "drop", "keep", "id", "time" and "text".
    random_state : int or None
        Seed of the sampled landmarks and kept rows. None is 0.
    ahead : int or None
        The rows of every domain are a series in time, and a number is predicted so many rows before it is known: from
        the numbers up to then (the newest, and those around the last day, week or year of a time column in `table`),
        and from the columns of its own row, which must be known as early. Labels are learned in their order. `predict`
        takes a row for the one that is `ahead` rows behind the newest label. None: rows are no series.

    Attributes
    ----------
    weights_ : NamedValues
        Expert -> its share in the prediction.
    coverage_ : dict
        Coverage -> the share of labels that were inside their interval so far.
    bound_, guarantee_ : float, str
        What the sum of squared errors cannot exceed, and these words.
    drift_ : Drift
        Whether the target seems to have changed: misses beyond half the deviation of y count as mistakes do.
    seen_, squared_error_, rmse_ : int, float, float
        Labels, the sum of squared errors and the root of their mean so far.
    expert_names_, source_names_, n_features_in_, learner_, constants_, table_

    References
    ----------
    Gaillard, Stoltz, van Erven: A second-order bound with excess losses (COLT 2014).
    Angelopoulos, Candes, Tibshirani: Conformal PID control for time series prediction (NeurIPS 2023).

    Examples
    --------
    >>> from hedgerow import OnlineTransferRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3)); y = X @ [1.0, 2.0, 0.0] + np.repeat([0.0, 10.0], 200)   # two levels
    >>> reg = OnlineTransferRegressor().fit(X, y, sample_domain=np.repeat([0, 1], 200))
    >>> stream = rng.normal(size=(100, 3)); truth = stream @ [1.0, 2.0, 0.0] - 5.0   # a third level
    >>> predictions = reg.predict_then_learn(stream, truth)
    >>> bool(abs(predictions[-50:] - truth[-50:]).mean() < 0.5), reg.seen_
    (True, 100)
    >>> low, high = reg.predict_interval(stream[:1])[0]
    >>> bool(low < truth[0] < high)
    True
    """

    learner_: RegressionLearner  # type: ignore[assignment]
    _learner: RegressionLearner  # type: ignore[assignment]
    _is_regressor = True
    _takes_gaps = True

    def __init__(
        self,
        *,
        coverage: float | Sequence[float] = 0.9,
        table: Mapping[str, Any] | None = None,
        random_state: int | None = None,
        ahead: int | None = None,
    ) -> None:
        self.ahead = ahead
        self.coverage = coverage
        self.table = table
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    # -- the offline stage --------------------------------------------------------------------------------------------

    @property
    def _reading_params(self) -> Mapping[str, Any]:
        """Rows and tables are read as the default classifier reads them."""
        return OnlineTransferClassifier(table=self.table).get_params(deep=False)

    def _start(
        self,
        inputs: Inputs,
        sources: Sequence[Any],
        warmup: Matrix,
        positions: Sequence[Array] = (),
        first: Array | None = None,
    ) -> None:
        """Build the learner; without sources the units of y are those of the first labels."""
        from hedgerow.regression import build

        names = check_sources(sources)
        check_ahead(self.ahead)
        lags: tuple[int, ...] = ()
        if self.ahead is not None:
            longest = max([s.X for s in sources], key=lambda X: X.shape[0], default=warmup)
            lags = lags_of(self.ahead, seasons_of(inputs.encoder, longest))
        width = inputs.width + len(lags)
        if (size := 8 * width**2) > DENSE_LIMIT:
            raise InputError(
                f"{width} features: the linear heads keep a matrix of {width} x {width}, which would take "
                f"{size / 2**30:.1f} GiB; reduce the features first, for instance by TruncatedSVD(256)"
            )
        y = [numbers(source.labels, f"source {source.name!r}") for source in sources]
        weights = [
            np.ones(len(b)) if s.weight is None else s.weight
            for s, b in zip(sources, y, strict=True)
        ]
        weight = np.concatenate([*weights, np.empty(0)])
        parts = build.Sources(
            np.concatenate(
                [
                    *(
                        lagged(s.X, b, np.arange(len(b)), lags)
                        for s, b in zip(sources, y, strict=True)
                    ),
                    np.empty((0, width)),
                ]
            ),
            np.concatenate([*y, np.empty(0)]),
            np.repeat(np.arange(len(y)), [len(part) for part in y]),
            weight / weight.mean() if len(weight) else weight,
        )
        seed = int(self.random_state or 0)
        levels = coverages(self.coverage)
        rows = lagged(warmup, np.empty(0), np.zeros(warmup.shape[0], int), lags)
        learner: Any = build.build(
            names, parts, rows, [(j, 1) for j in range(width)], levels, seed, first, lags
        )
        self._install(learner, Codes(np.empty(0)), inputs, names, [])

    # -- predicting ---------------------------------------------------------------------------------------------------

    def predict(self, X: Matrix, sample_domain: Any = None, *, allow_source: bool = False) -> Array:
        """Predict a number for each row; nothing is learned.

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

        Raises
        ------
        InputError
            For rows that cannot be used.

        Examples
        --------
        >>> reg = OnlineTransferRegressor().partial_fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0])
        >>> reg.predict([[0.5], [1.5]]).shape
        (2,)
        """
        return self._predicted(X, sample_domain, allow_source).predictions

    def predict_interval(
        self,
        X: Matrix,
        coverage: float | None = None,
        sample_domain: Any = None,
        *,
        allow_source: bool = False,
    ) -> Array:
        """Predict for each row an interval that should contain the label with this coverage.

        Parameters
        ----------
        X, sample_domain, allow_source
            As in `predict`.
        coverage : float or None
            One of those that the model was made with; None is the first of them.

        Returns
        -------
        array of shape (rows, 2)
            Lower and upper ends.

        Raises
        ------
        InputError
            For a coverage that is not tracked.

        Examples
        --------
        >>> reg = OnlineTransferRegressor(coverage=(0.5, 0.9)).partial_fit([[0.0], [1.0]], [1.0, 2.0])
        >>> wide, narrow = (reg.predict_interval([[0.5]], c)[0] for c in (0.9, 0.5))
        >>> bool(wide[0] <= narrow[0] <= narrow[1] <= wide[1])
        True
        """
        return self._ends(self._predicted(X, sample_domain, allow_source), coverage)

    def _ends(self, trace: NumberTrace, coverage: float | None) -> Array:
        half = trace.half[:, level_of(self.learner_.plan.coverage, coverage)]
        return np.column_stack([trace.predictions - half, trace.predictions + half])

    def _predicted(self, X: Matrix, sample_domain: Any, allow_source: bool) -> NumberTrace:
        with self._fitted:
            X = self._inputs.matrix(X)
            learner = self._learner
            check_target_rows(sample_domain, X.shape[0], allow_source)
            return learner.predict(self._now(X))

    def _now(self, X: Matrix) -> Matrix:
        """Rows to predict; of a series, each as the one `ahead` rows behind the newest label."""
        lags = self._learner.plan.lags
        if not lags:
            return X
        series = self._learner.series
        return lagged(X, series, np.full(X.shape[0], len(series) + lags[0] - 1), lags)

    def _in_series(self, X: Matrix, y: Array) -> tuple[Matrix, Array]:
        """Rows that follow those that were learned, and the newest label that was known at the prediction of each."""
        lags = self._learner.plan.lags
        there = ~np.isnan(y)
        past = self._learner.series
        series = np.concatenate([past, y[there]])
        rows = lagged(X, series, len(past) + np.cumsum(there) - there, lags)
        return rows, rows[:, X.shape[1]].copy()

    def trace(self, X: Matrix) -> NumberTrace:
        """As `predict`, with half the width of every interval and what every expert predicts.

        Returns
        -------
        NumberTrace
            `predictions` (rows), `half` (rows x levels of coverage) and `experts` (rows x experts).
        """
        return self._predicted(X, None, False)

    def predict_one(self, x: Any) -> float:
        """Predict a number for one instance; nothing is learned.

        Parameters
        ----------
        x : array, mapping, Series or table of one row
            A 1-d array in the order of the features, or values by their names.

        Returns
        -------
        float

        Examples
        --------
        >>> reg = OnlineTransferRegressor().partial_fit([[0.0], [1.0]], [2.0, 2.0])
        >>> reg.predict_one([0.5])
        2.0
        """
        return float(self._predicted_one(x).predictions[0])

    def predict_interval_one(self, x: Any, coverage: float | None = None) -> tuple[float, float]:
        """Predict the interval of one instance; `x` as in `predict_one`, `coverage` as in `predict_interval`.

        Returns
        -------
        tuple of float
            Its lower and its upper end.
        """
        low, high = self._ends(self._predicted_one(x), coverage)[0].tolist()
        return low, high

    def explain_one(
        self, x: Any, *, by_column: bool = False, reference: Any = None
    ) -> NumberExplanation:
        """Explain the prediction for one instance: its intervals, and the prediction and the weight of each expert.

        Parameters
        ----------
        x : array, mapping, Series or table of one row
            The instance.
        by_column : bool
            Also what each column added to the prediction; two rows a column are predicted for it.
        reference : as x, or None
            The row that `x` is compared with; None is the mean row of the sources.

        Returns
        -------
        NumberExplanation

        Examples
        --------
        >>> reg = OnlineTransferRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
        >>> list(reg.explain_one([1.0]).experts)[:2]
        ['linear: all sources', 'linear: target alone']
        """
        with self._fitted:
            trace = self._predicted_one(x)
            learner = self.learner_
            value = float(trace.predictions[0])
            half = zip(learner.plan.coverage, trace.half[0].tolist(), strict=True)
            intervals = {c: (value - h, value + h) for c, h in half}
            names = learner.expert_names
            parts = None
            if by_column:
                parts = self._contributions(
                    x,
                    lambda X: learner.predict(self._now(X)).predictions,
                    reference,
                    learner.constants["mean"][: self._inputs.width],
                    "prediction",
                )
            return NumberExplanation(
                value,
                intervals,
                dict(zip(names, trace.experts[0].tolist(), strict=True)),
                dict(zip(names, learner.weights.tolist(), strict=True)),
                parts,
            )

    def _loss(self, X: Array, labels: Array) -> float:
        if self._learner.plan.lags:
            raise InputError(
                f"ahead={self.ahead}: rows of a series cannot be shuffled; use explain_one(by_column=True)"
            )
        predicted = self._learner.predict(X.astype(np.float64)).predictions
        return float(np.mean((predicted - labels.astype(float)) ** 2))

    def _predicted_one(self, x: Any) -> NumberTrace:
        with self._fitted:
            row = self._inputs.row(x)
            return self._learner.predict(self._now(row if row.ndim == 2 else row[None]))

    # -- learning -----------------------------------------------------------------------------------------------------

    def partial_fit(self, X: Matrix, y: Any, sample_weight: Any = None, known: Any = None) -> Self:
        """Learn labelled target rows in order. Before any `fit` it starts a learner without sources.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (rows, features)
            Rows of the target.
        y : array of shape (rows,)
            Their numbers; None or NaN: not known, and nothing is learned of the row.
        sample_weight : array or None
            How much each label counts for the regressions; a weight of 0 is no label. The mixture, the intervals and
            the bound count every label as one.
        known : float, array or None
            `known_` as it was when each row was predicted, for all rows or one each. None: no row knew the label of
            another one of this call, only what was learned before it; in a series, those up to `ahead` rows before it.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For rows or numbers that cannot be used; nothing is then learned.
        """
        if self.__sklearn_is_fitted__():
            with self._fitted:
                X = self._inputs.matrix(X)
                labels, weight = weighted_numbers(y, sample_weight, X.shape[0], self._learner)
                self._late(X, labels, weight, known)
            return self
        with self._restored_on_error():
            inputs, X = self._first_target_rows(X)
            labels, weight = weighted_numbers(y, sample_weight, X.shape[0])
            self._start(inputs, [], X, first=labels[~np.isnan(labels)])
            self.learner_.check_labels(labels, "y")
            self._late(cast(X, np.float64), labels, weight, known)
        return self

    def _late(self, X: Matrix, y: Array, weight: Array | None, known: Any) -> None:
        """Labels of rows that were predicted before."""
        before = None
        if self._learner.plan.lags:
            X, before = self._in_series(X, y)
        if known is not None or before is None:
            before = self._known(known, len(y))
        self._learner.run(X, y, weight, before)

    @property
    def known_(self) -> float:
        """The newest label that was learned, which is what is known when a row is predicted; NaN: none.

        It may be set, where labels come in another order than their rows: to that of the newest row that has one.
        """
        with self._fitted:
            return self._learner.last

    @known_.setter
    def known_(self, label: float) -> None:
        with self._fitted:
            self._learner.last = float(self._known(label, 1)[0])

    def _known(self, known: Any, n: int) -> Array:
        """The labels that were known when n rows were predicted; NaN for none."""
        if known is None:
            return np.full(n, self._learner.last)
        labels = numbers(objects([known] * n if np.ndim(known) == 0 else known), "known")
        if len(labels) != n:
            raise InputError(f"known has {len(labels)} labels for {n} rows; give one, or one a row")
        return labels

    def learn_one(self, x: Any, y: Any, weight: float = 1.0, known: Any = None) -> Self:
        """Learn one target instance.

        A late label is learned the same way: keep the x, and `known_` as it was when x was predicted, and call this
        when the label arrives.

        Parameters
        ----------
        x : array, mapping, Series or table of one row
            As in `predict_one`.
        y : float or None
            Its number; a row without one (None, NaN) changes nothing.
        weight : float
            How much the label counts; see `partial_fit`.
        known : float or None
            `known_` as it was when the row was predicted. None: as it is now.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For a row, a number or a weight that cannot be used; nothing is then learned.

        Examples
        --------
        >>> OnlineTransferRegressor().partial_fit([[0.0]], [1.0]).learn_one([1.0], 2.0).seen_
        2
        """
        if "_lock" not in self.__dict__:
            self._warn_of_no_sources()
            return self.partial_fit(first_row(x), [y], weight, known)
        with self._fitted:
            learner = self._learner
            label = numbers(objects([y]), "y", learner)
            row = self._inputs.row(x)
            weight = one_weight(weight)
            if weight > 0:
                some = None if weight == 1 else np.array([weight])
                self._late(row if row.ndim == 2 else row[None], label, some, known)
        return self

    def predict_then_learn(self, X: Matrix, y: Any, sample_weight: Any = None) -> Array:
        """Predict each row before its label is learned, in order ("test-then-train").

        The predictions are those of `predict_one` and `learn_one` in turns. In a series, a row is predicted when the
        labels up to `ahead` rows before it are learned, and of earlier calls all.

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
            For rows or numbers that cannot be used; nothing is then learned.

        Examples
        --------
        >>> reg = OnlineTransferRegressor().partial_fit([[0.0], [1.0]], [2.0, 2.0])
        >>> reg.predict_then_learn([[0.5], [0.7]], [2.0, 2.0]).tolist(), reg.seen_
        ([2.0, 2.0], 4)
        """
        return self.trace_then_learn(X, y, sample_weight).predictions

    def trace_then_learn(self, X: Matrix, y: Any, sample_weight: Any = None) -> NumberTrace:
        """As `predict_then_learn`, with half the width of every interval and what every expert predicted.

        Returns
        -------
        NumberTrace
            As of `trace`, each row as it was before its label.
        """
        with self._fitted:
            X = self._inputs.matrix(X)
            learner = self._learner
            labels, weight = weighted_numbers(y, sample_weight, X.shape[0], learner)
            if not learner.plan.lags:
                return learner.run(X, labels, weight)
            X, before = self._in_series(X, labels)
            n = len(labels)
            late = np.arange(n) + learner.plan.lags[0] - 1  # behind whose prediction a label comes
            order = np.argsort(np.concatenate([2 * np.arange(n), 2 * late + 1]), kind="stable")
            rows = order % n
            learned = order >= n
            told = None if weight is None else weight[rows]
            trace = learner.run(
                X[rows], np.where(learned, labels[rows], np.nan), told, before[rows]
            )
            return NumberTrace(*(part[~learned] for part in trace))

    # -- what a fitted model says of itself ---------------------------------------------------------------------------

    @property
    def coverage_(self) -> dict[float, float]:
        """Coverage -> the share of labels that were inside their interval so far; NaN before the first."""
        with self._fitted:
            learner = self.learner_
            shares = (
                learner.covered if learner.seen else np.full(len(learner.plan.coverage), np.nan)
            )
            return dict(zip(learner.plan.coverage, shares.tolist(), strict=True))

    @property
    def rmse_(self) -> float:
        """The root of the mean squared error so far; NaN before the first label."""
        with self._fitted:
            return self._learner.root_mean_loss if self.seen_ else float("nan")

    squared_error_ = Fitted[float]("_learner.mixture_loss", "The sum of squared errors so far.")


def model_of_bytes(
    data: bytes,
    name: str = "model",
    constants: Constants | None = None,
    experts: Mapping[str, Any] | None = None,
) -> OnlineTransferClassifier | OnlineTransferRegressor:
    """A model of either class from the content of a model file."""
    stored = StoredModel.from_bytes(data, name, constants, experts)
    return (
        OnlineTransferRegressor if stored.is_regressor else OnlineTransferClassifier
    )._of_stored(stored, name)


def load_model(
    file: str | os.PathLike[str] | BinaryIO,
    *,
    constants: Constants | None = None,
    experts: Mapping[str, Any] | None = None,
) -> OnlineTransferClassifier | OnlineTransferRegressor:
    """Read a model of either class, as `OnlineTransferClassifier.load` and `OnlineTransferRegressor.load` do.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO(OnlineTransferRegressor().partial_fit([[0.0], [1.0]], [1.5, 2.5]).to_bytes())
    >>> type(load_model(file)).__name__
    'OnlineTransferRegressor'
    """
    return model_of_bytes(*read_model(file), constants, experts)


def numbers(labels: Array, where: str, learner: RegressionLearner | None = None) -> Array:
    """Labels as numbers, NaN where one is missing; refused if `learner` could not learn them."""
    missing = is_missing(labels)
    out = np.full(len(labels), np.nan)
    try:
        if labels.dtype.kind in "USmM" or any(
            isinstance(v, str | bytes) for v in labels[~missing][:1].tolist()
        ):
            raise ValueError(f"{labels[~missing][0]!r} is not a number")
        out[~missing] = labels[~missing].astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {error}; for classes use OnlineTransferClassifier") from error
    bad = np.flatnonzero(~missing & ~(np.abs(out) <= LARGEST_Y))
    if len(bad):
        raise InputError(
            f"{where}: Input y contains infinity or a number beyond {LARGEST_Y:g} at row {bad[0]}: {out[bad[0]]}; "
            "leave such labels out, or give all labels in a larger unit"
        )
    if learner is not None:
        learner.check_labels(out, where)
    return out


def weighted_numbers(
    y: Any, sample_weight: Any, length: int, learner: RegressionLearner | None = None
) -> tuple[Array, Array | None]:
    """One number a row and how much it counts; a label of weight 0 is as good as missing."""
    labels, weight = weighted_labels(y, sample_weight, length)
    return numbers(labels, "y", learner), weight
