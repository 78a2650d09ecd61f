"""OnlineTransferRegressor: its loop and its plain twin, its laws, its bound, its intervals, its door."""

from __future__ import annotations

import copy
import io

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.laws import law, one_by_one

from bench.naive import NaiveRegressor
from hedgerow import Domain, OnlineTransferClassifier, OnlineTransferRegressor, load_model
from hedgerow.core.errors import InputError

NOT_REPEATED = (
    "a weight is no number of repetitions: landmarks, kept rows and leaf sizes count rows"
)


@parametrize_with_checks(
    [OnlineTransferRegressor()],
    expected_failed_checks=lambda _: {
        f"check_sample_weight_equivalence_on_{kind}_data": NOT_REPEATED
        for kind in ("dense", "sparse")
    },
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def task(seed=0, sources=2, rows=120, stream=80, m=4):
    """Sources of the same slopes and other levels, and a target with a level and a scale of its own."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=m)
    X = rng.normal(size=(sources * rows, m))
    S = rng.normal(size=(stream, m))
    domain = np.repeat(np.arange(sources), rows)
    y = (
        X @ slopes
        + np.sin(2 * X[:, 0])
        + 5 * rng.normal(size=sources)[domain]
        + 0.3 * rng.normal(size=len(X))
    )
    t = 1.5 * (S @ slopes + np.sin(2 * S[:, 0])) - 4 + 0.3 * rng.normal(size=stream)
    return X, y, domain, S, t


def fitted(seed=0, coverage=0.9, **options):
    X, y, domain, S, t = task(seed, **options)
    return OnlineTransferRegressor(coverage=coverage).fit(X, y, sample_domain=domain), S, t


@pytest.mark.parametrize("sources", [1, 2, 8])
def test_the_loop_is_its_plain_twin(sources):
    reg, S, t = fitted(sources=sources, coverage=(0.9, 0.5))
    twin = NaiveRegressor(reg.learner_)
    t[::9] = np.nan
    t[17] = 1e3  # an outlier
    S[18] *= 30  # far from the sources: the linear head leaves the range
    weight = np.where(np.arange(len(t)) % 7, 1.0, 3.0)
    trace = reg.trace_then_learn(S, t, weight)
    for i, (x, y) in enumerate(zip(S, t, strict=True)):
        prediction, half, heads = twin.step(x, y, weight[i])
        np.testing.assert_allclose(trace.predictions[i], prediction, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(trace.half[i], half, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(trace.experts[i], heads, rtol=1e-7, atol=1e-7)
    folded = NaiveRegressor(reg.learner_).s
    for name in ("quantile", "range", "rows", "level", "mix", "kernel.P", "stack.M"):
        np.testing.assert_allclose(folded[name], twin.s[name], rtol=1e-6, atol=1e-7, err_msg=name)


@law(20)
@given(st.integers(0, 9), st.lists(st.integers(1, 79), max_size=4))
def test_any_cut_and_single_rows_predict_the_same(seed, cuts):
    reg, S, t = fitted(seed)
    twin = copy.deepcopy(reg)
    parts = np.split(np.arange(len(t)), sorted(set(cuts)))
    cut = np.concatenate([reg.predict_then_learn(S[p], t[p]) for p in parts if len(p)])
    np.testing.assert_array_equal(cut, one_by_one(twin, S, t))
    np.testing.assert_array_equal(reg.weights_.array, twin.weights_.array)
    assert reg.to_bytes() == twin.to_bytes()


@law(20)
@given(st.integers(0, 9), st.floats(0.01, 100), st.floats(-1e3, 1e3))
def test_other_units_of_y_change_nothing_else(seed, scale, shift):
    X, y, domain, S, t = task(seed, stream=40)
    plain = OnlineTransferRegressor().fit(X, y, sample_domain=domain).predict_then_learn(S, t)
    other = OnlineTransferRegressor().fit(X, scale * y + shift, sample_domain=domain)
    moved = other.predict_then_learn(S, scale * t + shift)
    np.testing.assert_allclose(
        (moved - shift) / scale, plain, rtol=1e-5, atol=1e-5 * (1 + abs(shift) / scale)
    )


def test_it_is_better_than_its_parts_and_learns_from_the_target():
    reg, S, t = fitted(stream=400)
    static = reg.predict(S)
    online = reg.predict_then_learn(S, t)
    assert np.mean((online[200:] - t[200:]) ** 2) < 0.1 * np.mean((static[200:] - t[200:]) ** 2)
    assert reg.squared_error_ == pytest.approx(((online - t) ** 2).sum())
    assert np.mean((online[200:] - t[200:]) ** 2) < 0.2 * t.var()


# -- intervals --------------------------------------------------------------------------------------------------------


def test_intervals_cover_as_they_promise_on_a_long_stream():
    reg, S, t = fitted(stream=3000, coverage=(0.9, 0.6))
    half = reg.trace_then_learn(S, t).half
    assert (half[500:, 0] > half[500:, 1]).all()
    for coverage, share in reg.coverage_.items():
        assert abs(share - coverage) < 0.02


def test_an_interval_of_another_coverage_is_refused_by_name():
    reg, S, _ = fitted(coverage=(0.9, 0.5))
    narrow = reg.predict_interval(S, 0.5)
    wide = reg.predict_interval(S)
    assert (wide[:, 0] < narrow[:, 0]).all()
    assert narrow.mean(axis=1) == pytest.approx(reg.predict(S))
    with pytest.raises(InputError, match=r"coverage=0.8 is not tracked, 0.9, 0.5 is"):
        reg.predict_interval(S, 0.8)
    explained = reg.explain_one(S[0])
    assert explained.intervals[0.9] == pytest.approx(tuple(wide[0]))
    assert sum(explained.weights.values()) == pytest.approx(1)
    assert explained.experts.keys() == explained.weights.keys() == set(reg.expert_names_)


@pytest.mark.parametrize("coverage", [0, 1, 1.5, None, "0.9", (), (0.9, 0.9), [True]])
def test_a_coverage_that_is_none_is_refused(coverage):
    X, y, *_ = task()
    with pytest.raises(InputError, match="coverage="):
        OnlineTransferRegressor(coverage=coverage).fit(X, y)


# -- the bound --------------------------------------------------------------------------------------------------------


def streams(seed, T):
    """Hostile ones: steps, spikes, signs that flip, growth, whatever the prediction is not."""
    rng = np.random.default_rng(seed)
    kind = seed % 5
    if kind == 0:
        return np.where(np.arange(T) % 40 < 20, 5.0, -5.0)
    if kind == 1:
        return np.where(rng.random(T) < 0.03, 300.0 * rng.normal(size=T), rng.normal(size=T))
    if kind == 2:
        return np.cumsum(rng.normal(size=T))
    if kind == 3:
        return 1.02 ** np.arange(T) * np.where(np.arange(T) % 2, 1, -1)
    return None  # the adversary


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_holds_on_hostile_sequences(seed):
    reg, _, _ = fitted(seed, rows=60)
    T = 300
    rng = np.random.default_rng(seed)
    S = 3 * rng.standard_t(2, size=(T, 4))
    t = streams(seed, T)
    loss = 0.0
    for i in range(T):
        prediction = reg.predict_one(S[i])
        y = t[i] if t is not None else (-8.0 if prediction > 0 else 8.0)
        loss += (prediction - y) ** 2
        reg.learn_one(S[i], y)
        assert loss <= reg.bound_ * (1 + 1e-9)
    assert reg.squared_error_ == pytest.approx(loss)
    assert "squared errors" in reg.guarantee_


def test_a_value_far_outside_is_followed_by_the_linear_head():
    X, y, domain, S, _ = task()
    y = X @ [1.0, 2.0, 0.0, 0.0]
    y[0], X[0] = X[0] @ [15.0, 30.0, 0.0, 0.0], 15 * X[0]  # the sources have rows as far
    reg = OnlineTransferRegressor().fit(X, y, sample_domain=domain)
    reg.predict_then_learn(S, S @ [1.0, 2.0, 0.0, 0.0])
    far = np.array([5.0, 7.0, 0.0, 0.0])
    assert reg.predict_one(far) == pytest.approx(19.0, rel=0.2)


@pytest.mark.parametrize("outlier", [1e3, 1e40, -1e99])
def test_an_outlier_is_forgotten_within_200_labels(outlier):
    reg, S, t = fitted(stream=600)
    plain = copy.deepcopy(reg).trace_then_learn(S, t)
    t[199] = outlier
    trace = reg.trace_then_learn(S, t)
    later = slice(399, 600)
    error, usual = (np.sqrt(np.mean((each.predictions - t)[later] ** 2)) for each in (trace, plain))
    print(f"200 labels after {outlier:g}: RMSE {error:.3g}, without it {usual:.3g}")
    assert error < 1.1 * usual
    assert np.median(trace.half[later]) < 1.5 * np.median(plain.half[later])


# -- the door ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-310, 1e-300, 1e-200, 1e90])
def test_tiny_and_huge_units_of_y_predict_as_one_does_and_labels_that_would_overflow_are_refused(
    unit,
):
    X, y, domain, S, t = task(rows=40, stream=60)
    plain = OnlineTransferRegressor().fit(X, y, sample_domain=domain)
    expected = plain.predict_then_learn(S, t)
    reg = OnlineTransferRegressor().fit(X, unit * y, sample_domain=domain)
    np.testing.assert_allclose(reg.predict_then_learn(S, unit * t) / unit, expected, rtol=1e-6)
    assert reg.rmse_ / unit == pytest.approx(plain.rmse_)
    if unit < 1e-100:
        before = reg.to_bytes()
        for refused in (
            lambda: reg.learn_one(S[0], 5.0),
            lambda: reg.partial_fit(S[:2], [unit, 5.0]),
            lambda: reg.predict_then_learn(S[:2], [unit, 5.0]),
        ):
            with pytest.raises(InputError, match=r"y: 5 at row . is more than 1e\+100 deviations"):
                refused()
        assert reg.to_bytes() == before
    with pytest.raises(
        InputError, match=r"beyond 1e\+100 at row 0: 1e\+101; leave such labels out"
    ):
        reg.learn_one(S[0], 1e101)


def test_a_tiny_source_beside_a_large_one_keeps_its_rows(monkeypatch):
    monkeypatch.setattr("hedgerow.regression.build.MOST_ROWS", 300)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3003, 2))
    domain = np.repeat([0, 1], [3000, 3])
    y = X[:, 0] + 10.0 * domain
    for order in (np.arange(3003), np.arange(3003)[::-1]):
        reg = OnlineTransferRegressor().fit(X[order], y[order], sample_domain=domain[order])
        assert "trees: source 1, level and scale" in reg.expert_names_
        assert np.isfinite(reg.predict_then_learn(X[:50], y[:50])).all()
        again = OnlineTransferRegressor.from_bytes(reg.to_bytes())
        np.testing.assert_array_equal(again.predict(X[:50]), reg.predict(X[:50]))
        (note,) = (info.note for info in reg.info_)
        assert note == "fitted on a sample of 300 of 3,003 rows of the sources"


def test_arrays_that_do_not_fit_the_plan_are_refused_after_a_fit_as_after_loading(monkeypatch):
    from hedgerow.regression import build

    made = build.regression
    monkeypatch.setattr(build, "regression", lambda *parts: tuple(a[:-1] for a in made(*parts)))
    with pytest.raises(InputError, match="linear"):
        fitted()


def test_bad_input_is_refused_with_a_reason_and_changes_nothing():
    reg, S, t = fitted()
    before = reg.to_bytes()
    for X, y, message in [
        (S[:2], ["a", "b"], "for classes use OnlineTransferClassifier"),
        (S[:2], [1.0, np.inf], "infinity"),
        (S[:2], [1.0], "y"),
        (S[:2, :3], [1.0, 2.0], "3 features"),
        (np.full((1, 4), np.inf), [1.0], "infinity"),
    ]:
        with pytest.raises(InputError, match=message):
            reg.partial_fit(X, y)
        with pytest.raises(InputError):
            reg.learn_one(X[0], y[-1] if len(y) == len(X) else "a")
    assert reg.to_bytes() == before
    with pytest.raises(InputError, match="a source row needs a label"):
        OnlineTransferRegressor().fit(S, np.where(t > t[0], t, np.nan))
    with pytest.raises(NotFittedError):
        OnlineTransferRegressor().predict(S)


def test_rows_without_a_label_and_gaps():
    reg, S, t = fitted()
    before = reg.to_bytes()
    reg.partial_fit(S, np.full(len(S), np.nan)).learn_one(S[0], None)
    reg.partial_fit(S, t, sample_weight=np.zeros(len(S)))
    assert reg.to_bytes() == before
    S[3, 1] = np.nan  # fitted on clean numbers, a gap comes later
    assert np.isfinite(reg.predict_then_learn(S, t)).all()


def test_files_copies_and_other_classes():
    reg, S, t = fitted()
    reg.predict_then_learn(S[:40], t[:40])
    file = io.BytesIO()
    reg.save(file)
    file.seek(0)
    again = OnlineTransferRegressor.load(file)
    twin = copy.deepcopy(reg)
    goes_on = reg.predict_then_learn(S[40:], t[40:])
    np.testing.assert_array_equal(again.predict_then_learn(S[40:], t[40:]), goes_on)
    np.testing.assert_array_equal(twin.predict_then_learn(S[40:], t[40:]), goes_on)
    light = OnlineTransferRegressor.from_bytes(
        reg.to_bytes(constants=False), constants=reg.constants_
    )
    np.testing.assert_array_equal(light.predict(S), reg.predict(S))
    with pytest.raises(InputError, match="OnlineTransferRegressor"):
        OnlineTransferClassifier.from_bytes(reg.to_bytes())
    clf = OnlineTransferClassifier("pa").partial_fit(S[:4], ["a", "b", "a", "b"])
    with pytest.raises(InputError, match="OnlineTransferClassifier"):
        OnlineTransferRegressor.from_bytes(clf.to_bytes())


@pytest.mark.filterwarnings("ignore:learn_one on a model that was not fitted")
def test_tables_domains_sparse_rows_and_a_cold_start():
    X, y, domain, S, t = task()
    words = np.array(["red", "green", "blue"])
    table = pd.DataFrame(X, columns=list("abcd")).assign(colour=words[np.arange(len(X)) % 3])
    table.loc[5, "a"] = np.nan
    stream = pd.DataFrame(S, columns=list("abcd")).assign(colour=words[np.arange(len(S)) % 3])
    reg = OnlineTransferRegressor().fit(table, y, sample_domain=domain)
    assert np.isfinite(reg.predict_then_learn(stream, t)).all()
    assert np.isfinite(reg.predict_one(dict(stream.iloc[0])))
    named = OnlineTransferRegressor().fit_domains(
        [Domain("a", X[:120], y[:120]), Domain("b", X[120:], y[120:])]
    )
    assert "trees: source b, level and scale" in named.weights_
    np.testing.assert_allclose(named.predict(sp.csr_array(S)), named.predict(S))
    cold = OnlineTransferRegressor()
    for x, value in zip(S, t, strict=True):
        cold.learn_one(x, value)
    assert np.mean((cold.predict(S) - t) ** 2) < 0.5 * t.var()


def test_a_change_of_the_target_raises_an_alarm():
    reg, S, t = fitted(stream=900)
    t[500:] = -t[500:] + 30
    reg.predict_then_learn(S[:500], t[:500])
    before = reg.drift_.alarms
    reg.predict_then_learn(S[500:600], t[500:600])
    assert before == 0
    assert reg.drift_.alarms == 1


# -- beside the classifier --------------------------------------------------------------------------------------------


def test_every_public_attribute_can_be_read_before_and_after_labels():
    reg, S, t = fitted()
    for _ in range(2):
        for name in dir(reg):
            if not name.startswith("_"):
                getattr(reg, name, None) if name == "feature_names_in_" else getattr(reg, name)
        assert not {"mistakes_", "discrepancy_", "hedge_loss_", "method_", "classes_"} & set(
            dir(reg)
        )
        reg.predict_then_learn(S, t)
    assert reg.rmse_ == pytest.approx((reg.squared_error_ / reg.seen_) ** 0.5)


@pytest.mark.parametrize(
    "y", [np.linspace(0, 1, 80), np.arange(80) ** 2, (np.arange(80) ** 2).astype(float)]
)
def test_a_classifier_given_numbers_names_the_regressor(y):
    X = np.random.default_rng(0).normal(size=(80, 3))
    with pytest.raises(InputError, match="this looks like regression: use OnlineTransferRegressor"):
        OnlineTransferClassifier().fit(X, y)
    with pytest.raises(InputError, match="this looks like regression"):
        OnlineTransferClassifier("pa").partial_fit(X, y)
    listed = OnlineTransferClassifier("pa", classes=sorted(set(y.tolist()))).fit(X, y)
    assert len(listed.classes_) == len(set(y.tolist()))


@pytest.mark.parametrize(
    "y", [np.arange(80), np.arange(80) * 4 % 40, (np.arange(80) ** 2).astype(str)]
)
def test_numbers_that_can_be_classes_stay_classes(y):
    X = np.random.default_rng(0).normal(size=(80, 3))
    assert len(OnlineTransferClassifier("pa").fit(X, y).classes_) == len(set(y.tolist()))


def test_one_loader_reads_both_kinds(tmp_path):
    reg, S, _ = fitted()
    reg.save(tmp_path / "numbers")
    OnlineTransferClassifier("pa").partial_fit(S[:2], ["a", "b"]).save(tmp_path / "classes")
    assert isinstance(load_model(tmp_path / "numbers"), OnlineTransferRegressor)
    assert isinstance(load_model(str(tmp_path / "classes")), OnlineTransferClassifier)
    light = load_model(io.BytesIO(reg.to_bytes(constants=False)), constants=reg.constants_)
    np.testing.assert_array_equal(light.predict(S), reg.predict(S))

    class Own(OnlineTransferRegressor):
        pass

    assert type(Own.load(tmp_path / "numbers")) is Own


def test_it_shows_itself(tmp_path):
    reg, S, t = fitted(coverage=(0.9, 0.5))
    assert "no label learned yet" in reg._repr_html_()
    reg.predict_then_learn(S, t)
    page = reg._repr_html_()
    assert f"RMSE {reg.rmse_:.4g} over 80 labels" in page
    assert "discrepancy" not in page
    assert "inside their 50% intervals" in page
    assert len(reg.plot()) == 1


def test_clones_and_searches_of_scikit_learn():
    X, y, domain, S, t = task(rows=60)
    reg = clone(OnlineTransferRegressor(coverage=(0.9, 0.5), random_state=3))
    assert reg.get_params() == {
        "ahead": None, "coverage": (0.9, 0.5), "table": None, "random_state": 3,
    }  # fmt: skip
    search = GridSearchCV(OnlineTransferRegressor(), {"random_state": [0, 1]}, cv=2).fit(
        X, X.sum(axis=1)
    )
    assert search.best_score_ > 0.5
    score = cross_val_score(reg, X, y, cv=2, scoring="neg_root_mean_squared_error")
    assert (score < 0).all()
    routed = OnlineTransferRegressor().fit(X, y, sample_domain=domain)
    assert routed.score(S, t) == pytest.approx(r2_score(t, routed.predict(S)))


def test_rows_that_are_too_wide_for_its_matrices_are_refused_with_the_remedy():
    X = sp.csr_matrix((20, 2**14))
    with pytest.raises(InputError, match=r"16384 features.*2\.0 GiB.*TruncatedSVD"):
        OnlineTransferRegressor().fit(X, np.arange(20.0))
