"""A fleet of regressors: every key predicts the number and the interval that a regressor of its own would."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.linear_model import LinearRegression

from hedgerow import InputError, OnlineTransferClassifier, OnlineTransferRegressor
from hedgerow.core.domains import Domain
from hedgerow.fleet import Base, DeadLetter, Fleet, KeyState

SMALL = 2**20  # bytes: keys have to leave all the time
KEYS = ["a", 7, "c"]
M = 4


def stations(n=120, seed=0):
    """Two sources of another level, and a stream of mixed keys, some of its labels missing."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=M)

    def rows(count, level):
        X = rng.normal(size=(count, M))
        return X, X @ slopes + level + 0.1 * rng.normal(size=count)

    X, y = rows(n, -5.0)
    y[rng.random(n) < 0.2] = np.nan
    return [Domain(name, *rows(60, level)) for name, level in (("s", 0.0), ("t", 9.0))], X, y


def mixed(n, seed=1):
    return [KEYS[i] for i in np.random.default_rng(seed).integers(0, len(KEYS), n)]


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


def test_a_key_equals_a_regressor_of_its_own(tmp_path):
    sources, X, y = stations()
    keys = mixed(len(X))
    weights = np.random.default_rng(2).choice([1.0, 0.5, 0.0], len(X))
    estimator = OnlineTransferRegressor(coverage=(0.9, 0.5))
    own = {key: clone(estimator).fit_domains(sources) for key in KEYS}
    fleet = Fleet(sources, estimator, path=tmp_path / "f", memory=SMALL)
    assert not estimator.__sklearn_is_fitted__()
    for a in range(0, len(X), 20):
        some = slice(a, a + 20)
        at = {key: [i for i in range(a, a + 20) if keys[i] == key] for key in KEYS}
        number = fleet.predict(keys[some], X[some])
        narrow = fleet.predict_interval(keys[some], X[some], 0.5)
        wide = fleet.predict_interval(keys[some], X[some])
        said = fleet.predict_then_learn(keys[some], X[some], y[some], weights[some])
        for key, places in at.items():
            here = np.array(places) - a
            close(number[here], own[key].predict(X[places]))
            close(wide[here], own[key].predict_interval(X[places]))
            close(narrow[here], own[key].predict_interval(X[places], 0.5))
            close(said[here], own[key].predict_then_learn(X[places], y[places], weights[places]))
        if a == 60:
            fleet.close()
            fleet = Fleet.open(tmp_path / "f", memory=SMALL)
    for key in KEYS:
        assert fleet[key].seen_ == own[key].seen_
        close(fleet[key].rmse_, own[key].rmse_)
        assert fleet[key].coverage_ == own[key].coverage_
    assert set(fleet.keys()) == set(KEYS)
    fleet.forget("a")
    assert "a" not in fleet
    close(fleet.predict(["a"], X[:1]), clone(estimator).fit_domains(sources).predict(X[:1]))
    assert fleet.stats()["own"] == 0
    assert fleet.stats()["light"] > 0
    fleet.close()


@pytest.mark.parametrize("rows", [1, 5, 30])
def test_a_key_is_no_larger_than_one_of_classes(rows):
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=20)
    X = rng.normal(size=(900, 20))
    y = X @ slopes
    sizes = []
    for estimator, labels in (
        (OnlineTransferRegressor(), y),
        (OnlineTransferClassifier(), np.where(y > 0, "high", "low")),
    ):
        known = [Domain(str(i), X[i : i + 200], labels[i : i + 200]) for i in (0, 200, 400)]
        with Fleet(known, estimator) as fleet:
            before = fleet.stats()["bytes"]
            fleet.learn(["k"] * rows, X[600 : 600 + rows], labels[600 : 600 + rows])
            assert fleet.stats()["light"] == 1
            sizes.append(fleet.stats()["bytes"] - before)
    print(
        f"a key after {rows} labels of 20 features: numbers {sizes[0]:,} bytes, classes {sizes[1]:,}"
    )
    assert sizes[0] <= sizes[1]


CRASH = """
import os, sys
import numpy as np
from hedgerow import load_model
from hedgerow.fleet import Fleet
fleet = Fleet(load_model(sys.argv[1]), path=sys.argv[2])
data = np.load(sys.argv[3])
for a in range(0, len(data["y"]), 10):
    fleet.learn(data["keys"][a:a + 10].tolist(), data["X"][a:a + 10], data["y"][a:a + 10], mark=a + 10)
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_has_learned_is_there(tmp_path):
    sources, X, y = stations(60)
    keys = np.array([str(key) for key in mixed(60)])
    reg = OnlineTransferRegressor().fit_domains(sources)
    reg.save(tmp_path / "model")
    np.savez(tmp_path / "rows.npz", X=X, y=y, keys=keys)
    told = [str(tmp_path / name) for name in ("model", "f", "rows.npz")]
    assert subprocess.run([sys.executable, "-c", CRASH, *told], check=False).returncode == -9
    with Fleet.open(tmp_path / "f") as fleet:
        assert fleet.mark == 60
        for key in set(keys.tolist()):
            own = clone(reg).fit_domains(sources)
            own.predict_then_learn(X[keys == key], y[keys == key])
            assert fleet[key].seen_ == own.seen_
            close(fleet[key].predict(X), own.predict(X))
            close(fleet[key].predict_interval(X), own.predict_interval(X))


def test_labels_that_are_no_numbers_change_nothing():
    sources, X, _ = stations()
    with Fleet(OnlineTransferRegressor().fit_domains(sources)) as fleet:
        for wrong in ("warm", np.inf, 1e200, 1j):
            with pytest.raises(InputError, match="key 'b'"):
                fleet.learn(["a", "b"], X[:2], [1.0, wrong])
        with pytest.raises(InputError, match="labels"):
            fleet.learn(["a", "b"], X[:2], [1.0, 2.0, 3.0])
        assert fleet.keys() == []
        letters: list[DeadLetter] = []
        said = fleet.predict_then_learn(
            ["a", "b", 2.5], X[:3], [1, "warm", 2], dead_letters=letters
        )
        assert [letter.key for letter in letters] == [2.5, "b"]
        assert np.isnan(said).tolist() == [False, True, True]
        assert np.isnan(fleet.predict_interval(["a", None], X[:2], dead_letters=letters)).all(
            axis=1
        ).tolist() == [0, 1]
        assert fleet.keys() == ["a"]
        fleet.learn(["a", "a"], X[:2], [None, np.nan]).warm_up("a", X[:2])
        assert fleet["a"].seen_ == 1


def test_what_only_classes_or_only_numbers_have_is_refused():
    sources, X, y = stations()
    numbers = Fleet(sources, OnlineTransferRegressor())
    classes = Fleet(
        [Domain("s", X, np.where(np.arange(len(X)) % 2, "x", "y"))], OnlineTransferClassifier("pa")
    )
    with numbers, classes:
        key = numbers["a"]
        other = classes["a"]
        for wrong in (numbers.predict_proba, numbers.probabilities):
            with pytest.raises(InputError, match="predict_interval"):
                wrong(["a"], X[:1])
        for wrong in (key.predict_proba, key.predict_set, numbers.base.member().predict_proba):
            with pytest.raises(InputError, match="predict_interval"):
                wrong(X[:1])
        assert not any(
            hasattr(thing, name) for thing in (key, numbers) for name in ("classes_", "mistakes_")
        )
        for wrong in (other.predict_interval, classes.base.member().predict_interval):
            with pytest.raises(InputError, match=r"predict_proba.*OnlineTransferRegressor"):
                wrong(X[:1])
        assert not hasattr(other, "rmse_")
        with pytest.raises(InputError, match=r"coverage=0\.8 is not tracked, 0\.9 is"):
            numbers.predict_interval(["a"], X[:1], 0.8)
    with pytest.raises(InputError, match=r"Fleet\(sources, OnlineTransferRegressor\(\)\)"):
        Fleet(sources)
    with pytest.raises(InputError, match="takes no options \\(coverage\\)"):
        Fleet(sources, OnlineTransferRegressor(), coverage=0.8)
    with pytest.raises(InputError, match="not LinearRegression"):
        Fleet(sources, LinearRegression())
    with pytest.raises(InputError, match="labels of a target"):
        Base(OnlineTransferRegressor().partial_fit(X, y))


def test_a_key_is_a_regressor():
    sources, X, y = stations()
    known = ~np.isnan(y)
    with Fleet(sources, OnlineTransferRegressor()) as fleet:
        key = fleet["a"].partial_fit(X[:50], y[:50])
        own = OnlineTransferRegressor().fit_domains(sources)
        own.predict_then_learn(X[:50], y[:50])
        assert is_regressor(key)
        assert key.score(X[known], y[known]) == pytest.approx(own.score(X[known], y[known]))
        assert key.predict_one(X[0]) == pytest.approx(own.predict_one(X[0]))
        assert isinstance(fleet.model("a"), OnlineTransferRegressor)


def test_states_move_and_many_rows_become_a_snapshot():
    sources, X, y = stations(700)
    base = Base.fit(sources, OnlineTransferRegressor())
    member = base.member()
    state = None
    for a in (0, 10, 600):
        b = {0: 10, 10: 600, 600: 700}[a]
        member.learn(X[a:b], y[a:b])
        state = base.member(state).learn(X[a:b], y[a:b]).to_bytes()
    assert KeyState.from_bytes(state, base.digest, "k").snapshot
    with Fleet(Base.from_bytes(base.to_bytes())) as fleet:
        fleet.put("k", state)
        assert fleet["k"].seen_ == member.seen_ == int((~np.isnan(y)).sum())
        close(fleet.predict_interval(["k"] * 9, X[:9]), member.predict_interval(X[:9]))
    other = Base.fit(sources[:1], OnlineTransferRegressor())
    with pytest.raises(InputError, match="other sources"):
        other.member(state)
