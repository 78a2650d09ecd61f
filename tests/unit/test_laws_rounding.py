"""What rounding may do: rows and labels moved by one unit in the last place hardly move what is predicted for them.

Another processor, another BLAS and another order of sums move numbers as little, so this is also why a journal that is
read on another machine gives the same model. The predicted class is not part of the law: of two classes that are
equally probable rounding may choose any.
"""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
from support.laws import budget

from hedgerow import Domain, OnlineTransferClassifier, OnlineTransferRegressor

pytestmark = pytest.mark.budget

STREAMS = 100
LENGTH = 40
COLUMNS = 5
KINDS = ("plain", "first label hit", "same labels", "grid", "same rows", "far", "constant column")


def nudged(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """Each number one unit in the last place up or down, or as it is; gaps and zeros stay."""
    to = rng.choice([-np.inf, 0.0, np.inf], size=values.shape)
    return np.where((to == 0) | (values == 0), values, np.nextafter(values, to))


def rows_of(rng: np.random.Generator, kind: str, gaps: bool) -> np.ndarray:
    X = rng.normal(size=(LENGTH, COLUMNS))
    if kind == "grid":
        X = np.round(2 * X) / 2
    if kind == "same rows":
        X = X[rng.integers(0, 4, size=LENGTH)]
    if kind == "far":
        X[LENGTH // 3] *= 1e3
    if kind == "constant column":
        X[:, 0] = 1.7
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


@cache
def sources(equal: bool, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, a number for each, and domains; `equal`: every domain has the same rows and numbers."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 60, COLUMNS))
    X = X[:1].repeat(n, axis=0) if equal else X + rng.normal(size=(n, 1, COLUMNS))
    y = X[:, :, 0] + np.sin(2 * X[:, :, 1]) + (0 if equal else 3 * rng.normal(size=(n, 1)))
    return X.reshape(-1, COLUMNS), y.ravel(), np.repeat(np.arange(n), 60)


@cache
def regressor(equal: bool, n: int) -> OnlineTransferRegressor:
    X, y, domain = sources(equal, n)
    return OnlineTransferRegressor().fit(X, y, sample_domain=domain)


@cache
def classifier(method: str, equal: bool, n: int, gaps: bool) -> OnlineTransferClassifier:
    """Two of the four classes have the same rows where the domains have, so that these are tied throughout."""
    X, y, domain = sources(equal, n)
    label = (y > np.median(y)) + 2 * (X[:, 2] > 0)
    if equal:
        again = label == 3
        X = np.vstack([X, X[again]])
        label = np.append(label, np.full(again.sum(), 2))
        domain = np.append(domain, domain[again])
    if gaps:
        X = np.where(np.random.default_rng(1).random(X.shape) < 0.05, np.nan, X)
    warmup = np.random.default_rng(3).normal(size=(30, COLUMNS))
    X = np.vstack([X, warmup])
    label = np.append(label, np.full(30, -1))
    domain = np.append(domain, np.full(30, -1))
    options = {"table": {}} if gaps else {}
    return OnlineTransferClassifier(method, **options).fit(X, label, sample_domain=domain)


@pytest.mark.parametrize("equal", [False, True], ids=["domains apart", "equal heads"])
@pytest.mark.parametrize("n", [1, 2, 8])
def test_numbers_hardly_move(equal, n):
    fitted = regressor(equal, n)
    for seed in range(budget(STREAMS // 6 + 1, least=len(KINDS))):
        rng = np.random.default_rng(seed)
        kind = KINDS[seed % len(KINDS)]
        X = rows_of(rng, kind, gaps=seed % 2 == 0)
        y = 2 * np.nan_to_num(X[:, 0]) - 4 + 0.3 * rng.normal(size=LENGTH)
        weight = rng.choice([0.5, 1.0, 3.0], size=LENGTH)
        if kind == "same labels":
            y[:] = 1.1
        if kind == "first label hit":
            y[0] = fitted.predict(X[:1])[0]
        y[5::6] = np.nan
        expected = copy.deepcopy(fitted).trace_then_learn(X, y, weight)
        moved = copy.deepcopy(fitted).trace_then_learn(
            nudged(rng, X), nudged(rng, y), nudged(rng, weight)
        )
        low = np.nanmin(y)
        high = np.nanmax(y)
        atol = 1e-9 * (max(high, expected.predictions.max()) - min(low, expected.predictions.min()))
        np.testing.assert_allclose(
            moved.predictions, expected.predictions, rtol=0, atol=atol, err_msg=f"{seed} {kind}"
        )


@pytest.mark.parametrize("equal", [False, True], ids=["domains apart", "equal heads"])
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize(
    ("method", "gaps"), [("hedgerow", False), ("hedgerow", True), ("hedgerow-linear", False)]
)
def test_probabilities_hardly_move(method, gaps, equal, n):
    fitted = classifier(method, equal, n, gaps)
    for seed in range(budget(STREAMS // 12 + 1, least=len(KINDS))):
        rng = np.random.default_rng(seed)
        kind = KINDS[seed % len(KINDS)]
        X = rows_of(rng, kind, gaps)
        label = rng.choice(fitted.classes_, size=LENGTH).astype(object)
        if kind == "same labels":
            label[:] = fitted.classes_[0]
        if kind == "first label hit":
            label[0] = fitted.predict(X[:1])[0]
        label[5::6] = None
        weight = rng.choice([0.5, 1.0, 3.0], size=LENGTH)
        expected = copy.deepcopy(fitted).explain_then_learn(X, label, weight)
        moved = copy.deepcopy(fitted).explain_then_learn(nudged(rng, X), label, nudged(rng, weight))
        np.testing.assert_allclose(
            moved.probabilities, expected.probabilities, rtol=0, atol=1e-9, err_msg=f"{seed} {kind}"
        )


def test_probabilities_hardly_move_where_a_column_that_only_the_target_has_is_constant():
    rng = np.random.default_rng(5)
    names = list("abcde")
    X, y, _ = sources(False, 1)
    source = Domain("s", pd.DataFrame(X, columns=names), y > np.median(y))
    own = pd.DataFrame(rng.normal(size=(LENGTH, COLUMNS)), columns=names).assign(own=1234.5)
    label = rng.random(LENGTH) < 0.5
    fitted = OnlineTransferClassifier(table={"new": "own"}).fit_domains(
        [source], Domain("t", own[names][:3])
    )
    moved = pd.DataFrame(nudged(rng, own.to_numpy()), columns=own.columns)
    expected, actual = (
        copy.deepcopy(fitted).explain_then_learn(rows, label) for rows in (own, moved)
    )
    np.testing.assert_allclose(actual.probabilities, expected.probabilities, rtol=0, atol=1e-9)
