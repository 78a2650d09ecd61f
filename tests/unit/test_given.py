"""Laws of the user's own models as experts: asked as they were fitted, kept out of files, and never trusted blindly."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from support.live_models import assert_same_model

from hedgerow import Domain, OnlineTransferClassifier, load_model
from hedgerow.core.errors import InputError
from hedgerow.fleet import Fleet
from hedgerow.live import LiveModel, Settings


def rows(seed, n, shift=0.0, K=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return 2 * np.eye(K, 5)[y] + rng.normal(size=(n, 5)) + shift, np.array(list("abcd"))[y]


X, Y = rows(1, 160, 0.5)
MODEL = LogisticRegression().fit(*rows(0, 300))


class Counting:
    """A model that counts the rows that it is asked about."""

    classes_ = MODEL.classes_

    def __init__(self, model=MODEL):
        self.model = model
        self.asked = 0

    def predict_proba(self, X):
        self.asked += len(X)
        return self.model.predict_proba(X)


def made(model=MODEL, sources=False, **options):
    clf = OnlineTransferClassifier(experts={"mine": model}, **options)
    known = [Domain("s", *rows(2, 60))] if sources else []
    return clf.fit_domains(known, Domain("t", rows(3, 40, 0.5)[0]))


def test_a_model_of_the_users_own_is_an_expert_twice():
    clf = made()
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert {"expert: mine", "expert, adapted: mine"} < set(clf.expert_names_)
    wrong = (clf.predict_then_learn(X, Y) != Y).sum()
    assert wrong == clf.mistakes_ <= clf.bound_
    assert wrong <= (MODEL.predict(X) != Y).sum() + 8
    at = clf.expert_names_.index("expert: mine")
    said = np.argmax(MODEL.predict_proba(X), axis=1)
    np.testing.assert_array_equal(made().explain(X).votes[:, at], said)


def test_the_adapted_expert_learns_what_its_model_confuses():
    def model(rows):
        P = MODEL.predict_proba(rows) * [1.0, 1.0, 60.0]
        return P / P.sum(axis=1, keepdims=True)

    clf = made(model, classes=["a", "b", "c"])
    clf.predict_then_learn(np.tile(X, (3, 1)), np.tile(Y, 3))
    mistakes = dict(zip(clf.expert_names_, clf.learner_.state["expert_mistakes"], strict=True))
    assert mistakes["expert, adapted: mine"] < 0.6 * mistakes["expert: mine"]


def liar(rows):
    return np.eye(3)[(MODEL.predict_proba(rows).argmax(axis=1) + 1) % 3]


def test_the_bound_holds_with_an_expert_that_lies():
    honest = made(LogisticRegression().fit(*rows(9, 30)), classes=["a", "b", "c"])
    clf = made(liar, classes=["a", "b", "c"])
    for model in (honest, clf):
        for begin in range(0, 160, 20):
            model.predict_then_learn(X[begin : begin + 20], Y[begin : begin + 20])
            assert model.mistakes_ <= model.bound_
    assert clf.mistakes_ < honest.mistakes_ + 20


class OneByOne(Counting):
    """Of the same digits in blocks and in rows, which products of matrices are not."""

    def predict_proba(self, X):
        return np.concatenate([MODEL.predict_proba(x[None]) for x in np.asarray(X)])


one_by_one = OneByOne()


@pytest.mark.parametrize("cut", [7, 160])
def test_blocks_give_what_rows_give_and_predicting_changes_nothing(cut):
    one, many = made(one_by_one), made(one_by_one)
    for x, label in zip(X, Y, strict=True):
        one.predict_one(x)
        one.learn_one(x, label)
    for begin in range(0, 160, cut):
        many.predict_proba(X)
        many.explain(X[:3])
        many.predict_then_learn(X[begin : begin + cut], Y[begin : begin + cut])
    assert_same_model(one, many)


def raises(rows):
    raise OSError("the service of the model is down")


@pytest.mark.parametrize(
    "answer",
    [
        raises,
        lambda rows: np.full((len(rows), 3), np.nan),
        lambda rows: np.ones((len(rows), 7)),
        lambda rows: "none",
    ],
)
def test_a_model_without_an_answer_abstains_with_one_warning(answer):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        clf = made(answer, classes=["a", "b", "c"])
        for begin in range(0, 160, 40):
            clf.predict_then_learn(X[begin : begin + 40], Y[begin : begin + 40])
    assert [str(w.message) for w in said if "abstains" in str(w.message)] == [
        str(w.message) for w in said
    ]
    assert len(said) == 1
    at = [clf.expert_names_.index(name) for name in ("expert: mine", "class frequencies")]
    mistakes = clf.learner_.state["expert_mistakes"][at]
    assert mistakes[0] == mistakes[1]
    assert clf.mistakes_ <= clf.bound_


def test_rows_that_are_missing_from_an_answer_are_the_only_ones_without():
    def model(rows):
        P = MODEL.predict_proba(rows)
        P[np.asarray(rows)[:, 0] > 1] = np.nan
        return P

    with pytest.warns(UserWarning, match="abstains where"):
        clf = made(model, classes=["a", "b", "c"])
    numbers = clf.as_matrix(X)
    silent = (numbers[:, -3:] == 0).all(axis=1)
    np.testing.assert_array_equal(silent, X[:, 0] > 1)


@pytest.mark.filterwarnings("ignore:the expert 'mine' abstains")
def test_a_file_asks_for_the_model_by_name_and_refuses_another(tmp_path):
    clf = made()
    clf.predict_then_learn(X[:80], Y[:80])
    clf.save(tmp_path / "model")
    again = load_model(tmp_path / "model", experts={"mine": MODEL})
    assert_same_model(clf, again)
    np.testing.assert_array_equal(clf.predict_proba(X), again.predict_proba(X))
    assert again.to_bytes() == clf.to_bytes()
    for experts, words in (
        (None, "needs the experts 'mine', which no file holds"),
        ({"other": MODEL}, "needs the experts 'mine'"),
        ({"mine": MODEL, "other": MODEL}, "no expert 'other'"),
        (
            {"mine": LogisticRegression(C=0.5).fit(*rows(0, 300))},
            "not the model that it was fitted",
        ),
        ({"mine": raises}, "not the model that it was fitted"),
    ):
        with pytest.raises(InputError, match=words):
            OnlineTransferClassifier.load(tmp_path / "model", experts=experts)
    plain = OnlineTransferClassifier().fit(*rows(0, 60)).to_bytes()
    with pytest.raises(InputError, match="has no experts"):
        OnlineTransferClassifier.from_bytes(plain, experts={"mine": MODEL})
    assert b"LogisticRegression" not in clf.to_bytes()


def test_a_journal_has_the_votes_and_recovery_does_not_ask(tmp_path):
    steady, shaken = Counting(), Counting()
    lives = []
    for name, model in (("a", steady), ("b", shaken)):
        live = LiveModel.create(tmp_path / name, made(model), Settings(snapshot_every=50))
        lives.append(live)
        for i in range(60):
            live.predict(X[i], ids=f"e{i}")
        live.label_many([(f"e{i}", str(Y[i])) for i in range(40)])
        live.predict_then_learn(X[60:80], list(map(str, Y[60:80])))
    lives[1]._snapshots.wait()
    shutil.copytree(tmp_path / "b", tmp_path / "c")
    (tmp_path / "c" / "lock").unlink()
    with pytest.raises(InputError, match="needs the experts 'mine'"):
        LiveModel.open(tmp_path / "c")
    once = Counting()
    OnlineTransferClassifier.from_bytes(lives[0].to_bytes(), experts={"mine": once})
    again = Counting()
    with LiveModel.open(tmp_path / "c", experts={"mine": again}) as live:
        assert again.asked == once.asked  # the questions of the file, and no row of the journal
        live.label_many([(f"e{i}", str(Y[i])) for i in range(40, 60)])
        lives[0].label_many([(f"e{i}", str(Y[i])) for i in range(40, 60)])
        assert again.asked == once.asked
        for other in (live, lives[0]):
            other.predict_then_learn(X[80:90], list(map(str, Y[80:90])))
        assert_same_model(live.clf, lives[0].clf)
        live.backup(tmp_path / "d")
    for live in lives:
        live.close()


def test_frames_reach_the_model_as_frames():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"kind": rng.choice(["oak", "ash"], 200), "n": rng.normal(size=200)})
    y = np.where(frame.kind == "oak", "x", "y")
    seen = []

    class Wants:
        classes_ = np.array(["x", "y"])
        inner = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())

        def predict_proba(self, X):
            seen.append(type(X).__name__)
            return self.inner.predict_proba(X[["kind"]])

    model = Wants()
    model.inner.fit(frame[["kind"]], y)
    clf = made_of(model, frame[:40])
    assert (clf.predict_then_learn(frame[40:120], y[40:120]) != y[40:120]).sum() <= 2
    mapping = {"kind": "ash", "n": 0.5}
    assert clf.predict_one(mapping) == "y" == clf.predict([mapping])[0]
    assert clf.predict_one(frame.iloc[3]) == y[3]
    assert clf.learn_one(mapping, "y").seen_ == 81
    assert set(seen) == {"DataFrame"}
    again = OnlineTransferClassifier.from_bytes(clf.to_bytes(), experts={"mine": model})
    assert_same_model(clf, again)
    assert "mine" in str(clf.explain_one(mapping, by_column=True, reference=frame.iloc[[0]]))


def made_of(model, warmup):
    return OnlineTransferClassifier(experts={"mine": model}).fit_domains([], Domain("t", warmup))


def test_a_class_that_nobody_knew_is_learned_beside_experts():
    late, labels = rows(4, 60, 0.5, K=4)
    one, many = made(one_by_one, sources=True), made(one_by_one, sources=True)
    one.predict_then_learn(late, labels)
    for x, label in zip(late, labels, strict=True):
        many.learn_one(x, label)
    assert one.classes_.tolist() == ["a", "b", "c", "d"]
    assert_same_model(one, many)
    again = OnlineTransferClassifier.from_bytes(one.to_bytes(), experts={"mine": one_by_one})
    np.testing.assert_array_equal(again.predict_proba(X), one.predict_proba(X))


def test_scores_labels_and_one_number_are_answers_too():
    two = np.isin(Y, ["a", "b"])
    binary = LogisticRegression().fit(X[two], Y[two])
    P = binary.predict_proba(X)
    for answer in (
        lambda rows: binary.predict_proba(rows)[:, 1],
        lambda rows: binary.decision_function(rows),
        lambda rows: np.log(binary.predict_proba(rows)),
    ):
        clf = made(answer, classes=["a", "b"])
        np.testing.assert_allclose(np.exp(clf.as_matrix(X)[:, -2:]), np.maximum(P, 1e-4), atol=1e-3)

    class Labels:
        classes_ = binary.classes_

        def predict(self, rows):
            return binary.predict(rows)

    said = np.exp(made(Labels()).as_matrix(X)[:, -2:])
    np.testing.assert_array_equal(said.argmax(axis=1), P.argmax(axis=1))


def test_what_cannot_be_is_refused():
    for experts, words in (
        ({}, "give models by name"),
        ([MODEL], "give models by name"),
        ({"x": 3}, "give a function of rows"),
        ({"x": liar}, "does not say which classes"),
    ):
        with pytest.raises(InputError, match=words):
            OnlineTransferClassifier(experts=experts).fit_domains([], Domain("t", X))
    with pytest.raises(InputError, match="does not read it"):
        OnlineTransferClassifier("oddm", experts={"mine": MODEL}).fit(*rows(0, 60))
    with pytest.raises(InputError, match="without experts of your own"):
        Fleet(made(trees=False))
