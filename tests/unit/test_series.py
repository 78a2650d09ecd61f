"""Numbers in their own order: what was known when a row was predicted, and numbers predicted some rows ahead."""

from __future__ import annotations

import copy
import math

import numpy as np
import pandas as pd
import pytest

from bench.naive import NaiveRegressor
from hedgerow import InputError, OnlineTransferRegressor
from hedgerow.fleet.base import Base
from hedgerow.live import LiveModel, Settings


def rows_of(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows that say little of their numbers, which walk."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.cumsum(rng.normal(size=n)) + 0.3 * X[:, 0]


@pytest.fixture(scope="module")
def fitted() -> OnlineTransferRegressor:
    """Sources whose order means nothing."""
    X, y = rows_of(240, seed=1)
    mixed = np.random.default_rng(2).permutation(240)
    domain = np.repeat([0, 1, -1], 80)
    return OnlineTransferRegressor().fit(X[mixed], y[mixed], sample_domain=domain)


@pytest.fixture
def reg(fitted):
    return copy.deepcopy(fitted)


def test_numbers_that_walk_are_not_predicted_worse_than_by_the_last_one(reg):
    X, y = rows_of(600)
    told = reg.predict_then_learn(X, y)
    ours, last = (np.mean((p[100:] - y[100:]) ** 2) for p in (told, np.append(0, y[:-1])))
    assert ours < 1.02 * last
    assert reg.explain_one(X[0]).experts["last value"] == pytest.approx(y[-1])
    assert reg.squared_error_ <= reg.bound_


def test_the_plain_loop_knows_the_same(reg):
    X, y = rows_of(60)
    known = [np.nan] * 5 + y[:-5].tolist()  # labels five rows late
    known[20] = 77.0  # never a label
    twin = NaiveRegressor(reg.learner_)
    trace = reg.learner_.run(X, y, before=np.array(known))
    for i, (x, label) in enumerate(zip(X, y, strict=True)):
        said, _, heads = twin.step(x, label, known=known[i])
        np.testing.assert_allclose(trace.predictions[i], said, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(trace.experts[i], heads, rtol=1e-7, atol=1e-7)


def test_no_row_of_a_call_knew_the_number_of_another(reg):
    X, y = rows_of(60)
    assert math.isnan(reg.known_)
    block, said, rows = (copy.deepcopy(reg) for _ in range(3))
    for some in np.split(np.arange(60), 6):
        known = block.known_
        block.partial_fit(X[some], y[some])
        said.partial_fit(X[some], y[some], known=known)
        for i in some:
            rows.learn_one(X[i], y[i], known=known)
    assert block.to_bytes() == said.to_bytes() == rows.to_bytes()
    assert OnlineTransferRegressor.from_bytes(block.to_bytes()).known_ == block.known_ == y[-1]
    at_once = copy.deepcopy(reg)
    at_once.predict_then_learn(X, y)
    assert at_once.to_bytes() != block.to_bytes()
    with pytest.raises(InputError, match="known has 3 labels for 60 rows; give one, or one a row"):
        block.partial_fit(X, y, known=[1.0] * 3)
    with pytest.raises(InputError, match="known: "):
        block.learn_one(X[0], 1.0, known="low")


@pytest.mark.parametrize("delay", [1, 4])
def test_a_journal_learns_late_numbers_with_what_was_known(reg, tmp_path, delay):
    X, y = rows_of(50)
    twin = copy.deepcopy(reg)
    told = []
    with LiveModel.create(tmp_path / "live", reg, Settings(snapshot_every=16)) as live:
        for i in range(50):
            told.append(twin.known_)
            assert live.predict(X[i], str(i)).label == twin.predict_one(X[i])
            if i >= delay:
                j = i - delay
                live.label(str(j), float(y[j]))
                twin.learn_one(X[j], y[j], known=told[j])
        arrays = live.clf.learner_.stored()
        for name, array in twin.learner_.stored().items():
            np.testing.assert_allclose(arrays[name], array, err_msg=name, rtol=1e-9, atol=1e-12)
        live.label("49", float(y[49]))
        newest = live.clf.known_
        live.label(str(50 - delay), float(y[50 - delay])) if delay > 1 else None
        assert live.clf.known_ == newest == y[49]
        before = live.to_bytes()
    with LiveModel.open(tmp_path / "live") as live:
        assert live.to_bytes() == before


# -- series -----------------------------------------------------------------------------------------------------------


def days(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Hours of a number that follows the clock."""
    when = pd.date_range("2024-01-01", periods=n, freq="h").strftime("%Y-%m-%dT%H:%M")
    noise = np.random.default_rng(seed).normal(size=n)
    return pd.DataFrame({"when": when}), 5 * np.sin(np.arange(n) * 2 * np.pi / 24) + 0.3 * noise


def series(ahead: int) -> OnlineTransferRegressor:
    X, y = days(480)
    domain = np.repeat([0, 1], 240)
    reg = OnlineTransferRegressor(ahead=ahead, table={"time": ["when"]})
    return reg.fit(X, y, sample_domain=domain)


@pytest.mark.parametrize("ahead", [1, 3])
def test_a_row_is_predicted_from_the_numbers_up_to_so_many_rows_before(ahead):
    X, y = days(660)
    X, y = X[480:].reset_index(drop=True), y[480:]
    block = series(ahead)
    turns = copy.deepcopy(block)
    assert block.learner_.plan.lags[0] == ahead
    assert {24, 168} <= set(block.learner_.plan.lags)
    told = block.predict_then_learn(X, y)
    n = len(y)
    own = []
    for i in range(n):
        if i >= ahead - 1:  # the row is so many behind the newest label
            own.append(turns.predict_one(X[i : i + 1]))
            j = i - ahead + 1
            turns.learn_one(X[j : j + 1], y[j])
    for j in range(n - ahead + 1, n):
        turns.learn_one(X[j : j + 1], y[j])
    np.testing.assert_allclose(told[ahead - 1 :], own, rtol=1e-9)
    assert turns.to_bytes() == block.to_bytes()
    assert np.mean((told[48:] - y[48:]) ** 2) < 0.05 * y.var()
    again = OnlineTransferRegressor.from_bytes(block.to_bytes())
    assert again.ahead == ahead
    np.testing.assert_array_equal(again.predict_interval(X[:2]), block.predict_interval(X[:2]))


def test_a_series_starts_without_sources_and_skips_missing_numbers():
    X, y = days(80)
    y[40] = np.nan
    reg = OnlineTransferRegressor(ahead=2, table={"time": ["when"]})
    reg.partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    assert reg.seen_ == 79
    np.testing.assert_array_equal(reg.learner_.series, y[~np.isnan(y)])
    assert len(reg.explain_one(X[:1], by_column=True).contributions.columns) == 1


def test_a_journal_of_a_series_is_repeated_to_the_last_bit(tmp_path):
    X, y = days(540)
    with LiveModel.create(tmp_path / "live", series(3), Settings(snapshot_every=16)) as live:
        for i in range(480, 540):
            live.predict(X.iloc[i].to_dict(), str(i))
            if i >= 483:
                live.label(str(i - 3), float(y[i - 3]))
        before = live.to_bytes()
    with LiveModel.open(tmp_path / "live") as live:
        assert live.to_bytes() == before


@pytest.mark.parametrize("ahead", [0, -1, 1.0, True, "1", 10_000])
def test_what_is_no_number_of_rows_is_refused(ahead):
    with pytest.raises(InputError, match=f"ahead={ahead!r}: how many rows ahead"):
        OnlineTransferRegressor(ahead=ahead).fit(*rows_of(20))


def test_a_fleet_keeps_no_series():
    with pytest.raises(InputError, match="ahead=2: keys of a fleet keep no series"):
        Base(OnlineTransferRegressor(ahead=2).fit(*rows_of(20)))
