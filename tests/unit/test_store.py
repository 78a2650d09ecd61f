"""Model files: what is saved comes back bit for bit, and what is no model is said to be none."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file
from support.laws import METHODS, assert_same_state, fitted, make_task

from hedgerow import OnlineTransferClassifier
from hedgerow.align import CORAL, JDA
from hedgerow.core.errors import InputError
from hedgerow.files import labels_from_json, labels_to_json
from hedgerow.heads import AROW, PassiveAggressive


def saved(clf, tmp_path):
    clf.save(tmp_path / "m.safetensors")
    return OnlineTransferClassifier.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("method", METHODS)
def test_parameters_and_place_come_back(method, tmp_path):
    task = make_task(0, new_classes=1)
    clf = fitted(task, method, horizon=100, preprocess=("zscore", "unit"))
    clf.partial_fit(task.X, task.y)
    loaded = saved(clf, tmp_path)
    assert loaded.get_params() == clf.get_params()
    assert_same_state(loaded.learner_.arrays(), clf.learner_.arrays())
    assert loaded.expert_names_ == clf.expert_names_
    assert loaded.source_names_ == clf.source_names_
    for name in (
        "seen_",
        "mistakes_",
        "bound_",
        "guarantee_",
        "dim_",
        "n_features_in_",
        "hedge_loss_",
    ):
        assert getattr(loaded, name) == getattr(clf, name)


@pytest.mark.parametrize("mixer", ["hedge", "loss", "log-loss"])
def test_every_mixer_comes_back(mixer, tmp_path):
    clf = fitted(make_task(0), "oddm", mixer=mixer)
    assert saved(clf, tmp_path).learner_.plan == clf.learner_.plan


@pytest.mark.parametrize("aligner", ["tca", CORAL(ridge=0.5), JDA(dim=3, rounds=2)], ids=str)
def test_an_aligner_object_comes_back(aligner, tmp_path):
    task = make_task(0)
    clf = fitted(task, "oddm-fixed", aligner=aligner)
    loaded = saved(clf, tmp_path)
    assert loaded.options.aligner == aligner
    np.testing.assert_array_equal(
        loaded.predict_then_learn(task.X, task.y), clf.predict_then_learn(task.X, task.y)
    )


def objects(items):
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1, 7]),
        np.array([0.5, 1.5]),
        np.array([True, False]),
        np.array(["a", "longer", "ü"]),
        np.array([1, 2], dtype=np.int8),
        objects(["a", "b"]),
        objects([(1, "a"), (2, "b")]),
        objects([((1, 2), 3), ((), 4)]),
        objects([1, 2.5]),
        objects([np.int64(3), np.float64(1.5)]),
    ],
    ids=str,
)
def test_labels_come_back(labels):
    from hedgerow.files import _plain

    again = labels_from_json(json.loads(json.dumps(labels_to_json(labels), default=_plain)))
    assert again.dtype == labels.dtype
    assert again.tolist() == labels.tolist()
    assert {hash(a) for a in again} == {hash(a) for a in labels}


@pytest.mark.parametrize("label", [b"bytes", frozenset({1})], ids=str)
def test_labels_that_cannot_be_written_are_refused_and_no_file_is_left(label, tmp_path):
    labels = objects([label] * 3)
    clf = OnlineTransferClassifier("pa").fit(np.eye(3), labels)
    assert clf.predict_one(np.ones(3)) == label
    with pytest.raises(InputError, match=r"cannot be saved.*text, numbers"):
        clf.save(tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


def test_numpy_numbers_as_options(tmp_path):
    task = make_task(0)
    clf = fitted(
        task,
        "oddm",
        dim=np.int64(3),
        C=np.float32(2),
        refresh_every=np.int32(4),
        beta=np.float64(0.5),
    )
    clf.set_params(classes=None)
    assert saved(clf, tmp_path).options.dim == 3


@pytest.mark.parametrize(
    "classes", [[0, 1, 2], np.array([0, 1, 2]), ("a", "b"), [(1, 2), (3, 4)]], ids=str
)
def test_fixed_classes_come_back(classes, tmp_path):
    labels = [list(classes)[i % 2] for i in range(6)]
    clf = OnlineTransferClassifier("paio", classes=classes).fit(np.eye(6), labels)
    loaded = saved(clf, tmp_path)
    assert list(loaded.classes) == list(classes)
    assert loaded.classes_.tolist() == clf.classes_.tolist()
    with pytest.raises(InputError, match="not among classes"):
        loaded.learn_one(np.ones(6), "other" if isinstance(labels[0], str) else 9)


def test_names_of_features_come_back(tmp_path):
    import pandas as pd

    X = pd.DataFrame(np.eye(4), columns=list("wxyz"))
    clf = saved(OnlineTransferClassifier("paio").fit(X, [0, 1, 0, 1]), tmp_path)
    assert clf.predict_one({"x": 1, "w": 0, "y": 0, "z": 0}) == 1
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(X[list("zyxw")])


def test_a_model_without_sources_or_labels(tmp_path):
    clf = OnlineTransferClassifier("oddm").fit(np.eye(3), [None] * 3, sample_domain=[-1] * 3)
    loaded = saved(clf, tmp_path)
    assert_same_state(loaded.learner_.arrays(), clf.learner_.arrays())
    assert loaded.learn_one(np.ones(3), "a").classes_.tolist() == ["a"]


def test_saving_replaces_the_file_whole(tmp_path):
    task = make_task(0)
    clf = fitted(task, "pa")
    clf.save(tmp_path / "m.safetensors")
    clf.partial_fit(task.X, task.y).save(tmp_path / "m.safetensors")
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]
    (tmp_path / "other").touch()
    assert (tmp_path / "m.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode
    assert OnlineTransferClassifier.load(tmp_path / "m.safetensors").seen_ == len(task.y)


def test_what_is_no_model(tmp_path):
    with pytest.raises(InputError, match="no model file at"):
        OnlineTransferClassifier.load(tmp_path / "absent")
    with pytest.raises(InputError, match=r"the folder .* does not exist"):
        fitted(make_task(0), "pa").save(tmp_path / "absent" / "m.safetensors")
    (tmp_path / "text").write_text("not a model, but long enough to be read as one")
    with pytest.raises(InputError, match="damaged"):
        OnlineTransferClassifier.load(tmp_path / "text")
    save_file({"a": np.ones(2)}, tmp_path / "other")
    with pytest.raises(InputError, match="not one that hedgerow wrote"):
        OnlineTransferClassifier.load(tmp_path / "other")
    whole = tmp_path / "m.safetensors"
    fitted(make_task(0), "pa").save(whole)
    (tmp_path / "half").write_bytes(whole.read_bytes()[:-50])
    with pytest.raises(InputError, match="damaged"):
        OnlineTransferClassifier.load(tmp_path / "half")


@pytest.mark.parametrize(
    "head",
    [PassiveAggressive("pa", C=2.0), PassiveAggressive("perceptron", C=0.5), AROW()],
    ids=str,
)
def test_a_head_with_an_option_that_its_rule_does_not_read_comes_back(head, tmp_path):
    task = make_task(0)
    clf = fitted(task, "oddm", head=head).partial_fit(task.X, task.y)
    loaded = saved(clf, tmp_path)
    assert loaded.options.head == clf.options.head == head
    assert_same_state(loaded.learner_.arrays(), clf.learner_.arrays())
