"""`hedgerow.capymoa.TransferClassifier` in CapyMOA's own evaluations equals the classifier alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from capymoa.base import ClassifierSSL
from capymoa.core import Instance, LabeledInstance
from capymoa.evaluation import prequential_evaluation, prequential_ssl_evaluation
from capymoa.stream import NumpyStream, Schema

from hedgerow import Domain, InputError, OnlineTransferClassifier, load, split
from hedgerow.capymoa import TransferClassifier


@pytest.fixture(scope="module")
def task():
    """Digits: whole numbers 0 to 9 as labels, which are the codes of a NumpyStream too."""
    domains = load("digits")
    warmup, target = split(domains.pop("shifted"), warmup=0.3, seed=0)
    return list(domains.values()), warmup, target


def fitted(task, method):
    return OnlineTransferClassifier(method).fit_domains(task[0], task[1])


def stream_of(target):
    return NumpyStream(target.X, target.y, "digits", feature_names=target.feature_names)


@pytest.mark.parametrize("method", ["hedgerow", "homotlms"])
def test_prequential_evaluation_is_predict_then_learn(task, method):
    clf, stream = fitted(task, method), stream_of(task[2])
    learner = TransferClassifier(stream.get_schema(), clf)
    found = prequential_evaluation(stream, learner, window_size=100, store_predictions=True)
    assert clf.seen_ == 0  # the one that was given
    expected = clf.predict_then_learn(task[2].X, task[2].y)
    assert found.predictions().tolist() == expected.tolist()
    assert found.cumulative.accuracy() == pytest.approx(100 * (expected == task[2].y).mean())
    np.testing.assert_allclose(learner.classifier.weights_, clf.weights_)


class Noted(TransferClassifier):
    """Notes what it is told."""

    def __init__(self, *args):
        super().__init__(*args)
        self.told = []

    def train(self, instance):
        self.told.append((instance.x, int(instance.y_index)))
        super().train(instance)

    def train_on_unlabeled(self, instance):
        self.told.append((instance.x, None))
        super().train_on_unlabeled(instance)

    def predict(self, instance):
        self.told.append((instance.x, "?"))
        return super().predict(instance)


@pytest.mark.parametrize("delay", [0, 20])
@pytest.mark.parametrize("method", ["hedgerow", "homotlms"])
def test_the_semi_supervised_evaluation_is_the_same_loop(task, method, delay):
    clf, stream = fitted(task, method), stream_of(task[2])
    learner = Noted(stream.get_schema(), clf)
    assert isinstance(learner, ClassifierSSL)
    found = prequential_ssl_evaluation(
        stream, learner, label_probability=0.3, delay_length=delay, window_size=100, store_predictions=True
    )
    expected = []
    for x, label in learner.told:
        if label == "?":
            expected.append(clf.predict_one(x))
        else:
            clf.learn_one(x, label)
    assert found.predictions().tolist() == expected
    assert 0 < clf.seen_ < 0.5 * len(task[2])
    assert learner.classifier.seen_ == clf.seen_
    unlabelled = sum(label is None for _, label in learner.told)
    assert unlabelled + (0 if delay else clf.seen_) == len(task[2])


def test_with_every_label_the_semi_supervised_evaluation_is_predict_then_learn(task):
    clf, stream = fitted(task, "hedgerow"), stream_of(task[2])
    found = prequential_ssl_evaluation(
        stream, TransferClassifier(stream.get_schema(), clf), label_probability=1.0, store_predictions=True
    )
    assert found.predictions().tolist() == clf.predict_then_learn(task[2].X, task[2].y).tolist()


def test_without_sources_the_stream_is_learned_alone(task):
    stream = stream_of(task[2])
    learner = TransferClassifier(stream.get_schema())
    first = stream.next_instance()
    assert learner.predict(first) is None
    assert learner.predict_proba(first) is None
    learner.train_on_unlabeled(first)
    assert learner.predict(first) is None
    found = prequential_evaluation(stream, learner, window_size=100)
    assert learner.classifier.seen_ == len(task[2])
    assert found.cumulative.accuracy() > 50


def schema(names=("a", "b"), classes=("ash", "birch")):
    return Schema.from_custom([*names, "y"], target="y", categories={"y": list(classes)})


def small(labels=("ash", "birch"), names=("a", "b")):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 2)) + 3 * np.eye(2)[y]
    given = np.array(labels)[y]
    return OnlineTransferClassifier("homotlms").fit_domains([Domain("s", X, given, feature_names=names)])


def test_columns_by_name_and_labels_by_text():
    clf = small()
    learner = TransferClassifier(schema(("b", "a"), ("birch", "ash", "cedar")), clf)
    x = np.array([3.0, 0.0])
    instance = Instance.from_array(learner.schema, x[::-1].copy())
    assert learner.schema.get_value_for_index(learner.predict(instance)) == clf.predict_one(x) == "ash"
    expected = clf.predict_proba_one(x)
    assert learner.predict_proba(instance).tolist() == [expected["birch"], expected["ash"], 0.0]
    learner.train(LabeledInstance.from_array(learner.schema, np.array([5.0, 5.0]), 2))
    assert learner.classifier.classes_.tolist() == ["ash", "birch", "cedar"]
    learner.train(LabeledInstance.from_array(learner.schema, np.array([5.0, 5.0]), np.nan))
    assert learner.classifier.seen_ == 1


def test_labels_that_are_given():
    learner = TransferClassifier(schema(classes=("0", "1")), small(), labels=["birch", "ash"])
    assert learner.predict(Instance.from_array(learner.schema, np.array([3.0, 0.0]))) == 1


def test_the_page_runs_as_printed():
    page = (Path(__file__).parents[3] / "docs" / "other-tools.md").read_text(encoding="utf-8")
    first = re.findall(r"^```python\n(.*?)^```", page, flags=re.M | re.S)[0]
    (ours,) = re.findall(r"^```py\n(.*?)^```", page, flags=re.M | re.S)
    subprocess.run([sys.executable, "-c", first + ours], check=True, timeout=120)


def test_what_does_not_fit_is_refused():
    clf = small()
    with pytest.raises(InputError, match=r"the model knows the classes \['ash', 'birch'\].*labels="):
        TransferClassifier(schema(classes=("oak", "elm")), clf)
    with pytest.raises(InputError, match="one label for each"):
        TransferClassifier(schema(), clf, labels=["ash"])
    with pytest.raises(InputError, match="3 attributes, the model has 2 features"):
        TransferClassifier(schema(("a", "b", "c")), clf)
    with pytest.raises(InputError, match="are not the model's"):
        TransferClassifier(schema(), small(labels=(1, 2)))
