"""skada's pipelines and scorers take `OnlineTransferClassifier` as it is."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.preprocessing import StandardScaler

from hedgerow import InputError, OnlineTransferClassifier

pytest.importorskip("skada", reason="pip install skada")

from skada import make_da_pipeline, metrics, model_selection

sklearn.set_config(enable_metadata_routing=False)  # importing skada sets it for everybody

SCORERS = ["SupervisedScorer", "ImportanceWeightedScorer", "PredictionEntropyScorer", "SoftNeighborhoodDensity",
           "DeepEmbeddedValidation", "CircularValidation", "MixValScorer", "MaNoScorer"]  # fmt: skip
PIPELINES_ONLY = {"DeepEmbeddedValidation", "MaNoScorer"}  # anything else is a network to them


@pytest.fixture(autouse=True)
def routed():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def data():
    """Two sources and a target of three shifted classes."""
    rng = np.random.default_rng(0)
    domain = np.repeat([1, 2, -3], 60)
    y = rng.integers(0, 3, len(domain))
    return (
        rng.normal(size=(len(y), 4)) + 3 * np.eye(4)[y] + 0.5 * np.abs(domain)[:, None],
        y,
        domain,
    )


def masked(y, domain):
    return np.where(domain < 0, -1, y)


@pytest.mark.parametrize("method", ["hedgerow", "oddm", "homotlms"])
def test_a_pipeline_as_it_is(data, method):
    X, y, domain = data
    target = domain < 0
    pipeline = make_da_pipeline(OnlineTransferClassifier(method)).fit(
        X, masked(y, domain), sample_domain=domain
    )
    plain = OnlineTransferClassifier(method).fit(X, y, sample_domain=domain)
    inside = pipeline[-1].base_estimator_
    assert inside.source_names_ == plain.source_names_
    assert inside.classes_.tolist() == np.unique(y).tolist()  # the mask has not become a class
    for verb in ("predict", "predict_proba", "decision_function"):
        found = getattr(pipeline, verb)(X[target], sample_domain=domain[target])
        np.testing.assert_array_equal(found, getattr(plain, verb)(X[target]))
        everywhere = getattr(pipeline, verb)(X, sample_domain=domain, allow_source=True)
        np.testing.assert_array_equal(everywhere, getattr(plain, verb)(X))
    assert pipeline.score(X[target], y[target], sample_domain=domain[target]) == plain.score(
        X[target], y[target]
    )


def test_behind_a_scaler_it_still_gets_the_domains(data):
    X, y, domain = data
    pipeline = make_da_pipeline(StandardScaler(), OnlineTransferClassifier())
    pipeline.fit(X, masked(y, domain), sample_domain=domain)
    plain = OnlineTransferClassifier().fit(
        StandardScaler().fit_transform(X), y, sample_domain=domain
    )
    np.testing.assert_array_equal(pipeline[-1].base_estimator_.weights_, plain.weights_)
    assert plain.source_names_ == ["1", "2"]


def test_rows_of_sources_are_predicted_only_if_allowed(data):
    X, y, domain = data
    clf = OnlineTransferClassifier().fit(X, y, sample_domain=domain)
    first = int(np.flatnonzero(domain >= 0)[0])
    for verb in (clf.predict, clf.predict_proba, clf.decision_function):
        with pytest.raises(InputError, match=f"row {first} is of a source.*allow_source=True"):
            verb(X, sample_domain=domain)
        assert len(verb(X, sample_domain=domain, allow_source=True)) == len(X)
        with pytest.raises(InputError, match="sample_domain: shape"):
            verb(X, sample_domain=domain[:3])
    with pytest.raises(InputError, match="is of a source"):
        clf.score(X, y, sample_domain=domain)
    assert clf.score(X, y, sample_domain=domain, allow_source=True) == clf.score(X, y)


def score(name, model, data):
    X, y, domain = data
    scorer = getattr(metrics, name)(**({"random_state": 0} if name == "MixValScorer" else {}))
    labels = {"target_labels": y} if name == "SupervisedScorer" else {}
    return scorer(model, X, masked(y, domain), sample_domain=domain, **labels)


@pytest.mark.filterwarnings(
    "ignore:The predicted target domain labels"
)  # logistic regression's in CircularValidation
@pytest.mark.parametrize("name", SCORERS)
def test_its_scorers(data, name):
    X, y, domain = data
    weighed = name == "ImportanceWeightedScorer"  # it wants to weigh the score, of whichever model
    reference = LogisticRegression()
    ours = OnlineTransferClassifier()
    if weighed:
        reference = reference.set_score_request(sample_weight=True)
        ours = ours.set_score_request(sample_weight=True)
    models = [make_da_pipeline(reference), make_da_pipeline(ours)]
    bare = (
        OnlineTransferClassifier().set_score_request(sample_weight=True)
        if weighed
        else OnlineTransferClassifier()
    )
    models += [] if name in PIPELINES_ONLY else [bare]
    found = [
        score(name, model.fit(X, masked(y, domain), sample_domain=domain), data) for model in models
    ]
    assert np.isfinite(found).all()
    assert found[1:] == pytest.approx([found[1]] * (len(found) - 1))


def test_every_scorer_of_skada_was_tried():
    every = {
        name for name, item in vars(metrics).items()
        if isinstance(item, type) and issubclass(item, metrics._BaseDomainAwareScorer) and not name.startswith("_")
    }  # fmt: skip
    assert every == set(SCORERS)


def test_in_cross_validation_and_a_search(data):
    X, y, domain = data
    folds = model_selection.SourceTargetShuffleSplit(n_splits=2, random_state=0)
    pipeline = make_da_pipeline(OnlineTransferClassifier("homotlms"))
    params = {"sample_domain": domain}
    found = cross_validate(pipeline, X, masked(y, domain), cv=folds, params=params,
                           scoring=metrics.PredictionEntropyScorer())  # fmt: skip
    assert np.isfinite(found["test_score"]).all()
    grid = GridSearchCV(pipeline, {"onlinetransferclassifier__options__C": [0.1, 5.0]}, cv=folds,
                        scoring=metrics.PredictionEntropyScorer())  # fmt: skip
    grid.fit(X, masked(y, domain), sample_domain=domain)
    assert grid.best_params_["onlinetransferclassifier__options__C"] in (0.1, 5.0)


def test_what_it_asks_for_is_kept_in_a_file(data, tmp_path):
    X, y, domain = data
    clf = OnlineTransferClassifier("homotlms").set_predict_request(
        sample_domain=False, allow_source=False
    )
    clf.set_score_request(sample_weight=True).fit(X, y, sample_domain=domain)
    clf.save(tmp_path / "m.safetensors")
    again = OnlineTransferClassifier.load(tmp_path / "m.safetensors")
    assert str(again.get_metadata_routing()) == str(clf.get_metadata_routing())
    fresh = OnlineTransferClassifier().get_metadata_routing()
    assert fresh.fit.requests["sample_domain"] is True
    assert again.get_metadata_routing().predict.requests["sample_domain"] is False
