"""Costs of mistakes: predictions of the lowest expected cost, and everything else as without them."""

from __future__ import annotations

import json
import subprocess
from io import BytesIO

import numpy as np
import pytest
from support.command import COMMAND, environment

from hedgerow import InputError, OnlineTransferClassifier
from hedgerow.fleet import Fleet
from hedgerow.live import LiveModel

RNG = np.random.default_rng(0)
N = 300
X = RNG.normal(size=(N, 4))
Y = np.where(X[:, 0] + RNG.normal(size=N) > 1.6, "fraud", "fine")
STREAM, TRUTH = X[200:], Y[200:]
COSTS = {"fraud": 50}
MATRIX = [[0.0, 1.0], [50.0, 0.0]]  # of "fine", "fraud"


def fitted(costs, method="hedgerow-linear"):
    return OnlineTransferClassifier(method, costs=costs).fit(X[:200], Y[:200])


@pytest.mark.parametrize("costs", [COSTS, MATRIX, np.array(MATRIX)])
def test_predictions_have_the_lowest_expected_cost(costs):
    clf = fitted(costs)
    plain = fitted(None)
    P = plain.predict_proba(STREAM)
    assert np.array_equal(clf.predict_proba(STREAM), P)
    best = clf.classes_[(P @ np.array(MATRIX)).argmin(axis=1)]
    assert (best == "fraud").sum() > 2 * (plain.predict(STREAM) == "fraud").sum()
    assert clf.predict(STREAM).tolist() == best.tolist()
    assert [clf.predict_one(x) for x in STREAM] == best.tolist()
    assert clf.explain(STREAM).labels.tolist() == best.tolist()
    assert [clf.explain_one(x).label for x in STREAM[:9]] == best[:9].tolist()


def test_what_is_counted_is_the_likeliest_class():
    clf = fitted(COSTS)
    plain = fitted(None)
    explained = clf.explain_then_learn(STREAM, TRUTH)
    usual = plain.explain_then_learn(STREAM, TRUTH)
    assert np.array_equal(explained.codes, usual.codes)
    assert np.array_equal(explained.probabilities, usual.probabilities)
    decided = clf.classes_[(usual.probabilities @ np.array(MATRIX)).argmin(axis=1)]
    assert explained.labels.tolist() == decided.tolist()
    assert (clf.mistakes_, clf.bound_, clf.drift_) == (plain.mistakes_, plain.bound_, plain.drift_)
    assert fitted(COSTS).predict_then_learn(STREAM, TRUTH).tolist() == decided.tolist()


def test_costs_are_kept_changed_and_extended():
    clf = fitted(COSTS)
    again = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    assert again.costs == COSTS
    assert again.predict(STREAM).tolist() == clf.predict(STREAM).tolist()
    of_matrix = OnlineTransferClassifier.from_bytes(fitted(MATRIX).to_bytes())
    assert of_matrix.predict(STREAM).tolist() == clf.predict(STREAM).tolist()
    again.set_params(costs=None)
    assert again.predict(STREAM).tolist() == fitted(None).predict(STREAM).tolist()
    for model in (clf, of_matrix):  # a class that is met later costs 1
        model.partial_fit(STREAM[:4], ["new"] * 4)
        P = model.predict_proba(STREAM)
        C = np.array([[0.0, 1.0, 1.0], [50.0, 0.0, 50.0 if model is clf else 1.0], [1.0, 1.0, 0.0]])
        assert model.predict(STREAM).tolist() == model.classes_[(P @ C).argmin(axis=1)].tolist()


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ({"froud": 5}, "'froud' is none of the classes .*'fraud'"),
        ({"fraud": "5"}, "'5' of 'fraud' is not a number"),
        ({"fraud": -1}, "finite and not below 0"),
        ({"fraud": float("nan")}, "finite and not below 0"),
        ([[0, 1, 2], [1, 0, 2], [1, 1, 0]], "of shape .3, 3. for 2 classes"),
        ([1, 2], "of shape .2,. for 2 classes"),
    ],
)
def test_costs_that_cannot_be(costs, words):
    with pytest.raises(InputError, match=words):
        fitted(costs)


def test_a_live_model_and_a_run_answer_by_cost(tmp_path):
    clf = fitted({"fraud": 2})
    expected = clf.predict(STREAM[:20]).tolist()
    assert len(set(expected)) == 2
    with LiveModel.create(tmp_path / "live", clf) as live:
        ids = [str(i) for i in range(20)]
        answers = live.predict(STREAM[:20], ids)
        assert [answer.label for answer in answers] == expected
        assert [answer.label for answer in live.predict(STREAM[:20], ids)] == expected
        for answer in answers:
            assert answer.probability == answer.probabilities[answer.label]
        live.label("0", "fine")
        likeliest = fitted(None).predict(STREAM[:1])[0]
        assert live.stats()["mistakes"] == int(likeliest != "fine")
    clf.save(tmp_path / "m.safetensors")
    lines = [json.dumps(x.tolist()) for x in STREAM[:20]]
    (tmp_path / "s.jsonl").write_text("\n".join(lines) + "\n")
    words = [
        "run",
        "-m",
        tmp_path / "m.safetensors",
        "--input",
        tmp_path / "s.jsonl",
        "--output",
        "-",
    ]
    done = subprocess.run(
        [*COMMAND, *map(str, words)], capture_output=True, text=True, timeout=120, env=environment()
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["prediction"] for line in done.stdout.splitlines()] == expected


def test_a_fleet_refuses_costs():
    with pytest.raises(InputError, match="a fleet predicts the likeliest class"):
        Fleet(fitted(COSTS))


def test_without_costs_nothing_changes():
    file = BytesIO()
    fitted(None).save(file)
    file.seek(0)
    assert OnlineTransferClassifier.load(file).costs is None
