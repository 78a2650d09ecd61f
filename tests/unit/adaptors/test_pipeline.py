"""A scikit-learn pipeline that learns online, and its file."""

from __future__ import annotations

import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.utils.estimator_checks import parametrize_with_checks

from hedgerow import InputError, OnlineTransferClassifier, OnlineTransferRegressor
from hedgerow.pipeline import OnlinePipeline, make_online_pipeline

pytest.importorskip("skops", reason="pip install 'hedgerow[pipeline]'")


def data(seed=0, n=200):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 5)) + 2 * np.eye(5)[y] + 3
    return X, np.array(["ash", "birch", "cedar"])[y], np.repeat([0, 1, -1, -1], n // 4)


SCORE = "sklearn.feature_selection._univariate_selection.f_classif"  # a function; skops trusts none unasked
FRONTS = [
    StandardScaler(),
    MinMaxScaler(),
    PCA(3),
    Nystroem(n_components=20, random_state=0),
    QuantileTransformer(n_quantiles=20),
    KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"),
    SelectKBest(k=3),
    make_pipeline(SimpleImputer(), StandardScaler(), PolynomialFeatures(2)),
    make_column_transformer(
        (StandardScaler(), [0, 1]), (OneHotEncoder(handle_unknown="ignore"), [2])
    ),
    "passthrough",
]


CASES = [("homotlms", front) for front in FRONTS] + [("hedgerow", StandardScaler())]


@pytest.mark.parametrize(
    ("method", "front"), CASES, ids=[f"{m} {type(f).__name__}" for m, f in CASES]
)
def test_it_is_the_classifier_behind_the_transformer_and_its_file_goes_on(method, front, tmp_path):
    X, y, domain = data()
    warm = domain >= 0
    live = np.flatnonzero(domain < 0)[50:]
    start = np.flatnonzero(domain < 0)[:50]
    rows = np.r_[np.flatnonzero(warm), start]
    model = make_online_pipeline(front, OnlineTransferClassifier(method)).fit(
        X[rows], y[rows], domain[rows]
    )
    Z = X if front == "passthrough" else model[0].transform(X)
    clf = OnlineTransferClassifier(method).fit(Z[rows], y[rows], sample_domain=domain[rows])
    np.testing.assert_array_equal(
        model.predict_then_learn(X[live[:20]], y[live[:20]]),
        clf.predict_then_learn(Z[live[:20]], y[live[:20]]),
    )
    model.save(tmp_path / "m.pipeline")
    again = OnlinePipeline.load(
        tmp_path / "m.pipeline", trusted=[SCORE] if isinstance(front, SelectKBest) else ()
    )
    for each in (model, again):
        twin = OnlineTransferClassifier.from_bytes(clf.to_bytes())
        for i in live[20:]:
            row = Z[i] if isinstance(Z, np.ndarray) else Z[[i]]
            assert each.predict_one(X[i]) == twin.predict_one(row)
            assert each.predict_proba_one(X[i]) == pytest.approx(
                each.explain_one(X[i]).probabilities
            )
            each.learn_one(X[i], y[i])
            twin.learn_one(row, y[i])
        assert each[-1].mistakes_ == twin.mistakes_
        np.testing.assert_allclose(each.predict_proba(X[live]), twin.predict_proba(Z[live]))


def not_expected(pipeline):
    """What scikit-learn's own Pipeline fails, and what no online learner's weights are."""
    steps = "a Pipeline, scikit-learn's too, has its fitted steps where its parameters are"
    weights = "a weight is no number of repetitions"
    return {
        "check_estimators_overwrite_params": steps,
        "check_dont_overwrite_parameters": steps,
        "check_sample_weight_equivalence_on_dense_data": weights,
    }


@pytest.mark.filterwarnings("ignore::RuntimeWarning:sklearn")  # its own cast of NaN in a check
@parametrize_with_checks(
    [make_online_pipeline(StandardScaler(), OnlineTransferClassifier("homotlms"))],
    expected_failed_checks=not_expected,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_from_nothing_the_first_rows_fit_what_is_not_fitted():
    X, y, _ = data()
    pca = PCA(3).fit(X[:50])
    model = make_online_pipeline(pca, StandardScaler(), OnlineTransferClassifier("homotlms"))
    model.partial_fit(X[50:100], y[50:100])
    assert model[0] is pca
    np.testing.assert_allclose(model[1].mean_, pca.transform(X[50:100]).mean(axis=0))
    before = model[1].mean_
    model.partial_fit(X[100:], y[100:])
    assert model[1].mean_ is before
    assert model[-1].seen_ == 150


def test_partial_fit_is_learn_one_row_by_row():
    X, y, _ = data()
    one, many = (
        make_online_pipeline(PCA(4), OnlineTransferClassifier("oddm")).fit(X[:80], y[:80])
        for _ in range(2)
    )
    for i in range(80, 140):
        one.learn_one(X[i], y[i])
    many.partial_fit(X[80:140], y[80:140])
    np.testing.assert_allclose(one[-1].weights_, many[-1].weights_)
    np.testing.assert_array_equal(one.predict(X[140:]), many.predict(X[140:]))


def test_the_labels_of_target_rows_teach_no_transformer():
    X, y, domain = data()
    lies = np.where(domain < 0, "nonsense", y)
    models = [
        make_online_pipeline(SelectKBest(k=2), OnlineTransferClassifier("homotlms")).fit(
            X, labels, domain
        )
        for labels in (y, lies)
    ]
    np.testing.assert_array_equal(models[0][0].scores_, models[1][0].scores_)
    assert models[1].classes_.tolist() == ["ash", "birch", "cedar"]


@pytest.mark.parametrize("estimator", [OnlineTransferClassifier, OnlineTransferRegressor])
def test_what_each_column_behind_the_transformers_added_is_named_as_they_name_it(estimator):
    X, y, _ = data()
    frame = pd.DataFrame({"height": X[:, 0], "kind": np.where(X[:, 1] > 3, "old", "new")})
    front = make_column_transformer((StandardScaler(), ["height"]), (OneHotEncoder(), ["kind"]))
    model = make_online_pipeline(front, estimator()).fit(
        frame, y if estimator is OnlineTransferClassifier else X[:, 0]
    )
    assert model.explain_one(frame.iloc[0]).contributions is None
    x = frame.iloc[0].to_dict()
    reference = frame.iloc[1].to_dict()
    parts = model.explain_one(x, by_column=True, reference=reference).contributions
    rows = model[0].transform(frame)
    wanted = model[-1].explain_one(rows[0], by_column=True, reference=rows[1]).contributions
    names = dict(zip(("x0", "x1", "x2"), model[0].get_feature_names_out(), strict=True))
    assert set(names.values()) == {
        "standardscaler__height",
        "onehotencoder__kind_new",
        "onehotencoder__kind_old",
    }
    assert parts.columns == {names[name]: amount for name, amount in wanted.columns.items()}
    assert parts.cells == {names[name]: cell for name, cell in wanted.cells.items()}
    assert parts[:3] == wanted[:3]
    assert (
        model.explain_one(x, by_column=True).contributions.reference_value != parts.reference_value
    )


def test_columns_of_a_transformer_without_names_have_numbers():
    X, y, _ = data()
    model = make_online_pipeline(
        FunctionTransformer(np.log1p), OnlineTransferClassifier("homotlms")
    ).fit(X, y)
    assert sorted(model.explain_one(X[0], by_column=True).contributions.columns) == [
        "x0",
        "x1",
        "x2",
        "x3",
        "x4",
    ]
    alone = make_online_pipeline(OnlineTransferClassifier("homotlms")).fit(X, y)
    assert len(alone.explain_one(X[0], by_column=True).contributions.columns) == 5


def test_a_fit_that_fails_changes_nothing():
    X, y, _ = data()
    model = make_online_pipeline(StandardScaler(), OnlineTransferClassifier("homotlms")).fit(X, y)
    before = model[0]
    said = model.predict_proba(X)
    with pytest.raises(InputError, match="sample_weight"):
        model.fit(X + 5, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(InputError, match="labels"):
        model.partial_fit(X, y[:3])
    assert model[0] is before
    np.testing.assert_array_equal(model.predict_proba(X), said)


def test_domains_in_a_search():
    X, y, domain = data()
    model = make_online_pipeline(StandardScaler(), OnlineTransferClassifier("homotlms"))
    order = np.random.default_rng(0).permutation(len(y))
    grid = GridSearchCV(model, {"onlinetransferclassifier__options__C": [0.1, 5.0]}, cv=2)
    grid.fit(X[order], y[order], sample_domain=domain[order])
    assert grid.best_estimator_[-1].source_names_ == ["0", "1"]


def test_the_transformer_stays_as_it_was_fitted():
    X, y, _ = data()
    model = make_online_pipeline(StandardScaler(), OnlineTransferClassifier("homotlms")).fit(
        X[:80], y[:80]
    )
    before = model[0].mean_.copy()
    model.partial_fit(X[80:] + 100, y[80:])
    np.testing.assert_array_equal(model[0].mean_, before)


def test_a_transformer_that_was_fitted_elsewhere():
    X, y, _ = data()
    pca = PCA(3).fit(X[:50])
    model = make_online_pipeline(FrozenEstimator(pca), OnlineTransferClassifier()).fit(
        X[50:100] * 2, y[50:100]
    )
    np.testing.assert_array_equal(model[0].transform(X), pca.transform(X))
    cold = make_online_pipeline(FrozenEstimator(pca), OnlineTransferClassifier()).partial_fit(X, y)
    assert cold[-1].seen_ == len(y)


def test_a_table_with_text_by_names(tmp_path):
    X, y, domain = data()
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"]).assign(
        colour=np.where(X[:, 2] > 3.5, "red", "green")
    )
    frame.loc[::7, "a"] = np.nan
    front = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
        (OneHotEncoder(), ["colour"]),
    )
    model = make_online_pipeline(front, OnlineTransferClassifier()).fit(
        frame[:150], y[:150], domain[:150]
    )
    for i in (150, 154):  # the second has a gap
        row = frame.iloc[i]
        assert (
            model.predict_one(row.to_dict())
            == model.predict_one(row)
            == model.predict(frame[i : i + 1])[0]
        )
    model.learn_one({**frame.iloc[150].to_dict(), "unused": 1}, y[150])
    model.save(tmp_path / "m.pipeline")
    again = OnlinePipeline.load(tmp_path / "m.pipeline")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert again[-1].seen_ == 1
    assert [name for name, _ in again.steps] == [name for name, _ in model.steps]


def test_words():
    texts = np.array(["good book", "bad book", "good film", "bad film"] * 10)
    y = np.array(["up", "down"] * 20)
    model = make_online_pipeline(TfidfVectorizer(), OnlineTransferClassifier("homotlms")).fit(
        texts, y
    )
    assert model.predict(["a good one", "a bad one"]).tolist() == ["up", "down"]
    model.partial_fit(texts, y)
    assert model[-1].seen_ == 40


class Doubled(TransformerMixin, BaseEstimator):
    """A transformer of the user's own."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return 2 * np.asarray(X)


def test_a_type_that_skops_does_not_know_is_named_and_trusted_only_if_you_do(tmp_path):
    X, y, _ = data()
    model = make_online_pipeline(Doubled(), OnlineTransferClassifier("homotlms")).fit(X, y)
    model.save(tmp_path / "m.pipeline")
    with pytest.raises(InputError, match=r"Doubled.*trusted="):
        OnlinePipeline.load(tmp_path / "m.pipeline")


def test_files_that_cannot_be_used(tmp_path):
    X, y, _ = data()
    model = make_online_pipeline(StandardScaler(), OnlineTransferClassifier("homotlms")).fit(X, y)
    path = tmp_path / "m.pipeline"
    model.save(path)
    first = path.read_bytes()
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with pytest.raises(InputError, match="no file at"):
        OnlinePipeline.load(tmp_path / "nowhere")
    for name in parts:
        damaged = tmp_path / "damaged"
        with zipfile.ZipFile(damaged, "w") as archive:
            for other, content in parts.items():
                archive.writestr(other, b"{}" if other == name else content)
        with pytest.raises(InputError, match="damaged"):
            OnlinePipeline.load(damaged)
    (tmp_path / "short").write_bytes(first[:500])
    with pytest.raises(InputError, match="damaged"):
        OnlinePipeline.load(tmp_path / "short")


def test_what_cannot_be_a_pipeline():
    X, y, _ = data()
    with pytest.raises(InputError, match="the last step is LogisticRegression"):
        make_online_pipeline(StandardScaler(), LogisticRegression())
    with pytest.raises(InputError, match="leave memory out"):
        OnlinePipeline([("clf", OnlineTransferClassifier())], memory="here").fit(X, y)
    with pytest.raises(InputError, match="y is None"):
        make_online_pipeline(StandardScaler(), OnlineTransferClassifier()).fit(X, None)
    unfitted = make_online_pipeline(StandardScaler(), OnlineTransferClassifier())
    with pytest.raises(NotFittedError):
        unfitted.learn_one(X[0], "ash")
    twin = clone(unfitted.set_params(onlinetransferclassifier__method="oddm"))
    assert isinstance(twin, OnlinePipeline)
    assert twin[-1].method == "oddm"


def test_a_regressor_is_the_last_step(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 2))
    y = X[:, 0] * X[:, 1]
    model = make_online_pipeline(PolynomialFeatures(), OnlineTransferRegressor()).fit(
        X[:80], y[:80]
    )
    predictions = model.predict_then_learn(X[80:], y[80:])
    assert np.mean((predictions - y[80:]) ** 2) < 0.1 * y.var()
    model.learn_one(X[0], y[0]).save(tmp_path / "m")
    again = OnlinePipeline.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(
        again.predict_interval(X).mean(axis=1), model.predict_interval(X).mean(axis=1)
    )
    assert again.explain_one(X[0]).prediction == pytest.approx(model.predict_one(X[0]))
    assert clone(again)[-1].coverage == 0.9
