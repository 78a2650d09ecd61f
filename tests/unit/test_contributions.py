"""Contributions of columns: they add up, they are exact where the model is a sum, and they can be read."""

import numpy as np
import pandas as pd
import pytest

from hedgerow import METHODS, Domain, OnlineTransferClassifier, OnlineTransferRegressor
from hedgerow.contributions import of_row
from hedgerow.core.errors import InputError


def rows(seed, n=60):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, X[:, 0] + 0.3 * X[:, 1]


def fitted(method):
    domains = [Domain(f"s{i}", X, (y > 0).astype(int)) for i in range(2) for X, y in [rows(i)]]
    return OnlineTransferClassifier(method).fit_domains(domains, Domain("t", rows(5, 20)[0]))


@pytest.mark.parametrize("method", METHODS)
def test_they_add_up_to_the_change_in_log_odds(method):
    clf = fitted(method)
    (X, y) = rows(7)
    clf.partial_fit(X, (y > 0).astype(int))
    x = X[0]
    before = clf.to_bytes()
    explanation = clf.explain_one(x, by_column=True)
    c = explanation.contributions
    usual = np.mean([rows(i)[0].mean(axis=0) for i in range(2)], axis=0)
    p, r = (np.clip(clf.predict_proba(row[None])[0], 1e-9, None) for row in (x, usual))
    k = clf.classes_.tolist().index(explanation.label)
    change = np.log(p[k] / p[1 - k]) - np.log(r[k] / r[1 - k])
    assert c.value - c.reference_value == pytest.approx(change, abs=1e-6)
    assert sum(c.columns.values()) + c.interactions == pytest.approx(change, abs=1e-6)
    assert sorted(c.columns) == ["x0", "x1", "x2", "x3"]
    assert clf.to_bytes() == before  # nothing was learned
    assert clf.explain_one(x).contributions is None
    assert set(clf.explain_one(x, by_column=True, reference=x).contributions.columns.values()) == {
        0.0
    }


def test_they_add_up_to_the_change_of_a_number():
    domains = [Domain(f"s{i}", *rows(i)) for i in range(2)]
    reg = OnlineTransferRegressor().fit_domains(domains)
    x = rows(9)[0][0]
    c = reg.explain_one(x, by_column=True, reference=np.zeros(4)).contributions
    assert c.value == pytest.approx(reg.predict_one(x))
    assert c.reference_value == pytest.approx(reg.predict_one(np.zeros(4)))
    assert sum(c.columns.values()) + c.interactions == pytest.approx(c.value - c.reference_value)


def test_they_are_exact_for_sums_and_pairs_and_name_what_three_columns_do_together():
    x = np.array([2.0, 3.0, 5.0])
    r = np.array([1.0, 1.0, 1.0])
    c = of_row(lambda X: X[:, 0] - 4 * X[:, 2], x, r, list("abc"))
    assert c.columns == {"c": -16.0, "a": 1.0, "b": 0.0}
    assert c.interactions == 0
    c = of_row(lambda X: X.prod(axis=1), x, np.zeros(3), list("abc"))
    assert c.interactions == 30 - sum(c.columns.values()) != 0
    assert "interactions" in str(c)
    assert "<script>" not in of_row(lambda X: X[:, 0], x[:1], r[:1], ["<script>"])._repr_html_()


def test_a_column_of_a_table_is_one_column_and_shows_its_cell():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"city": rng.choice(["Oslo", "Rome"], 80), "age": rng.normal(40, 10, 80)})
    clf = OnlineTransferClassifier().fit(table, np.where(table.city == "Rome", "yes", "no"))
    c = clf.explain_one({"city": "Rome", "age": 41.0}, by_column=True).contributions
    assert list(c.columns) == ["city", "age"]
    assert c.columns["city"] > 0
    assert c.cells["city"] == ("Rome", None)
    assert "Rome" in str(c)
    again = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    assert again.explain_one({"city": "Rome", "age": 41.0}, by_column=True).contributions == c


def test_what_cannot_be_explained_is_refused():
    clf = OnlineTransferClassifier("pa").partial_fit(np.eye(2), [0, 1])
    with pytest.raises(InputError, match="give reference="):
        clf.explain_one(np.ones(2), by_column=True)
    assert (
        clf.explain_one(np.ones(2), by_column=True, reference=np.zeros(2)).contributions is not None
    )
    with pytest.raises(InputError, match="at most 4096"):
        of_row(lambda X: X[:, 0], np.zeros(5000), np.zeros(5000), [str(i) for i in range(5000)])


@pytest.mark.parametrize("estimator", [OnlineTransferClassifier, OnlineTransferRegressor])
def test_an_explanation_is_read_in_a_terminal_and_in_a_notebook(estimator):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = estimator().fit(X, X[:, 0] > 0 if estimator is OnlineTransferClassifier else X[:, 0])
    why = model.explain_one(X[0], by_column=True)
    first, *experts = str(why._replace(contributions=None)).splitlines()
    assert len(experts) == 5
    assert str(why).endswith(str(why.contributions))
    assert why._repr_html_().endswith(why.contributions._repr_html_())
    assert first in why._repr_html_()


@pytest.mark.parametrize("estimator", [OnlineTransferClassifier, OnlineTransferRegressor])
def test_the_column_that_decides_is_the_important_one(estimator):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"noise": rng.normal(size=200), "city": rng.choice(["Oslo", "Rome", "Bern"], 200)}
    )
    y = (frame["city"] == "Oslo") * 3.0 + 0.01 * frame["noise"]
    y = np.where(y > 1, "a", "b") if estimator is OnlineTransferClassifier else y.to_numpy()
    domains = [Domain("x", frame[:100], y[:100]), Domain("y", frame[100:], y[100:])]
    model = estimator().fit_domains(domains)
    importances = model.feature_importances_
    assert list(importances) == ["noise", "city"]
    assert importances["city"] > 0.9
    assert importances.array.sum() == pytest.approx(1)
    assert model.feature_importances_ == importances
    loaded = estimator.from_bytes(model.to_bytes())
    assert not hasattr(loaded, "feature_importances_")
    X = rng.normal(size=(120, 3))
    y = X[:, 1] if estimator is OnlineTransferRegressor else X[:, 1] > 0
    model = estimator().fit(X, y, sample_domain=np.arange(120) % 2)
    assert max(model.feature_importances_, key=model.feature_importances_.get) == "x1"


def test_columns_that_get_names_keep_what_is_known_of_them(tmp_path):
    """Importances and bins of a model that was fitted on bare rows go by the new names, in its file too."""
    X, y = np.random.default_rng(0).normal(size=(200, 2)), np.repeat([0, 1], 100)
    model = OnlineTransferClassifier().fit(X, y, sample_domain=np.arange(200) % 2)
    model.save(tmp_path / "bare.safetensors")
    model = OnlineTransferClassifier.load(tmp_path / "bare.safetensors")
    importances = model.feature_importances_.array
    model.name_features(["width", "height"])
    again = OnlineTransferClassifier.from_bytes(model.to_bytes())
    assert list(again.feature_importances_) == ["width", "height"]
    np.testing.assert_array_equal(again.feature_importances_.array, importances)
    assert list(again.kept_["bins"]) == ["width", "height"]
