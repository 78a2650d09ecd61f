"""No option is accepted and ignored: for every method, one that is set is refused by name, or makes a difference.

`random_state` is scikit-learn's convention for whatever draws at random, and stands on every estimator; a method that
draws nothing takes it without a word.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from support.laws import METHODS, make_task

from hedgerow import OnlineTransferClassifier, PaperOptions
from hedgerow.align import CORAL
from hedgerow.core.errors import InputError
from hedgerow.estimator import arguments_of
from hedgerow.heads import AROW
from hedgerow.methods import ANSWERS, CHOICES, Reading, reading_of
from hedgerow.mix import LossBased

PARAMETERS: dict[str, list[Any]] = {
    "reading": ["authors", "paper", "table"],
    "aligner": ["coral", "tca", CORAL(ridge=0.5)],
    "head": ["arow", "pa2", "perceptron", AROW("arow", 3.0)],
    "mixer": ["log-loss", LossBased(loss="softmax")],
    "dim": [2],
    "rank": [3],
    "trees": [False],
    "C": [0.01],
    "mu": [7.0],
    "beta": [0.3],
    "horizon": [25],
    "preprocess": [(), "unit", ("row-minmax", "unit")],
    "classes": [["c0", "c1", "c2", "c3"]],
    "max_classes": [3],
    "dtype": ["float32"],
    "table": [{"drop": ["x0"]}],
    "coverage": [0.9],
    "costs": [{"c0": 50}],
    "experts": [{"mine": lambda rows: rows[:, :3]}],
}
READING: dict[str, list[Any]] = {
    **{
        name: [value for value in choices if value != getattr(Reading(), name)]
        for name, choices in ANSWERS.items()
    },
    "refresh_every": [3],
    "lam": [30.0],
    "preprocess": [("unit",)],
}
# Options without which another has nothing to say: a horizon's beta has a rule, a combination its mixer.
BESIDE: dict[str, list[dict[str, Any]]] = {
    "beta_rule": [{"horizon": 25}],
    "guarantee": [{}, {"beta": 0.3}, {"horizon": 25}],
    "combine": [{}, {"mixer": "loss"}, {"mixer": "hedge"}],
    "C": [{}, {"head": "arow"}, {"head": "pa2"}],
    "dim": [{}, {"aligner": "tca"}],
    "lam": [{}, {"aligner": "jda"}],
    "eigenvectors": [{}, {"aligner": "jda"}],
    "projected": [{}, {"aligner": "tca"}],
}


def test_every_parameter_is_here():
    """A new parameter, or a new answer of a reading, must join this test."""
    own = set(OnlineTransferClassifier().get_params()) - {"method", "random_state", "options"}
    assert set(PARAMETERS) == own | set(PaperOptions().get_params())
    assert set(READING) | {"preset"} == {field.name for field in fields(Reading)}
    assert set(CHOICES) <= set(PARAMETERS)


def outcome(method: str, options: dict[str, Any]) -> dict[str, Any]:
    """All that a user can see of a model after a stream."""
    task = make_task(3, K=3, rows=30, stream=60, new_classes=0)
    rng = np.random.default_rng(0)
    y = np.where(
        rng.random(60) < 0.3, rng.permutation(task.y), task.y
    )  # the experts err, and not all at once
    clf = OnlineTransferClassifier(**arguments_of(method, options)).fit_domains(
        task.sources, task.warmup
    )
    start = clf.predict_proba(task.X)
    shares = []
    for a in range(0, 60, 10):
        shares.append(clf.predict_proba(task.X[a : a + 10]))
        clf.partial_fit(task.X[a : a + 10], y[a : a + 10])
    new = None
    try:
        clf.learn_one(task.X[0], "a new class")
    except InputError as error:
        new = str(error)
    arrays = clf.learner_.arrays()
    return {
        "plan": repr(clf.learner_.plan), "arrays": arrays, "start": start, "shares": np.concatenate(shares),
        "bound": clf.bound_, "guarantee": clf.guarantee_, "names": clf.expert_names_, "classes": clf.classes_.tolist(),
        "constants": clf.constants_.digest, "discrepancy": clf.discrepancy_, "new": new,
        "predicted": clf.predict(task.X),
        "combine": getattr(getattr(clf.learner_.plan, "mixer", None), "combination", None),
    }  # fmt: skip


def differ(one: dict[str, Any], other: dict[str, Any]) -> bool:
    for name, value in one.items():
        if name == "arrays":
            if value.keys() != other[name].keys() or any(
                not same(value[k], other[name][k]) for k in value
            ):
                return True
        elif isinstance(value, np.ndarray):
            if not same(value, other[name]):
                return True
        elif value != other[name] and not (value != value and other[name] != other[name]):
            return True
    return False


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    )


def given(name: str, value: Any, beside: dict[str, Any], of_reading: bool) -> dict[str, Any]:
    """As a user would write it: an answer of a reading goes into `reading`."""
    return beside | (
        {"reading": reading_of("general", **{name: value})} if of_reading else {name: value}
    )


def cases() -> list[tuple[str, Any, dict[str, Any], bool]]:
    found = []
    for table, of_reading in ((PARAMETERS, False), (READING, True)):
        for name, values in table.items():
            found += [
                (name, value, beside, of_reading)
                for value in values
                for beside in BESIDE.get(name, [{}])
            ]
    return found


@pytest.mark.parametrize("method", METHODS)
def test_no_option_is_accepted_and_ignored(method):
    plain: dict[str, dict[str, Any]] = {}
    ignored = []
    refused = []
    read = []
    for name, value, beside, of_reading in cases():
        if str(beside) not in plain:
            try:
                plain[str(beside)] = outcome(method, beside)
            except InputError:
                plain[str(beside)] = {}  # the method does not read what it would stand beside
        if not plain[str(beside)] or (name == "combine" and value == plain[str(beside)]["combine"]):
            continue  # what the mixer does anyway, said aloud
        what = f"{name}={value!r} beside {beside}" if beside else f"{name}={value!r}"
        try:
            found = outcome(method, given(name, value, beside, of_reading))
        except InputError as error:
            refused.append((name, what, str(error)))
            continue
        (read if differ(found, plain[str(beside)]) else ignored).append(what)
    assert ignored == []
    assert [refusal for refusal in refused if refusal[0] not in refusal[2]] == []
    assert len(read) >= 5
    assert refused


@pytest.mark.parametrize(
    ("method", "option", "others"),
    [
        ("hedgerow", {"C": 2.0}, "pa, paio"),
        ("hedgerow", {"dim": 20}, "oddm-fixed, oddm"),
        ("hedgerow", {"mu": 2.0}, "oddm"),
        ("pa", {"rank": 3}, "hedgerow, hedgerow-linear"),
        ("pa", {"beta": 0.5}, "homotl-2, homotlms"),
        ("homotlms", {"reading": reading_of("general", lam=3.0)}, "oddm-fixed, oddm"),
        ("oddm-fixed", {"reading": reading_of("general", refresh_every=3)}, "oddm"),
    ],
    ids=str,
)
def test_the_refusal_names_the_option_and_who_reads_it(method, option, others):
    with pytest.raises(
        InputError, match=rf"does not read it here \(methods that do: .*{others}.*\); leave it out"
    ):
        outcome(method, option)


def test_a_seed_makes_a_difference_where_something_is_drawn():
    """More rows than landmarks: then some are drawn."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1300, 4))
    y = rng.integers(0, 2, size=1300)
    first, second = (
        OnlineTransferClassifier(random_state=seed).fit(X, y).constants_.digest for seed in (0, 1)
    )
    assert first != second
