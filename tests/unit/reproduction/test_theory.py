"""Theorem 1 is false as printed, in three ways; what is proved holds on the same streams."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.core.errors import InputError
from hedgerow.mix import Hedge, horizon_beta
from reproduction.theory import (
    CLAIMS,
    claims_of,
    learned_experts,
    loud_expert,
    split_vote,
    theorem_beta,
    theorem_bound,
)

PROVED = {name for name, claim in CLAIMS.items() if claim.proved}


def row(**changes: Any) -> dict[str, Any]:
    base = {
        "group": "table", "task": "dslr", "method": "oddm", "variant": "", "split": 0, "trial": 0, "n": 110,
        "mistakes": 30, "expert_mistakes": [21, 40], "expert_loss": [21.0, 40.0], "hedge_loss": 25.5, "beta": 0.9,
        "bound": 29.1, "guarantee": Hedge(0.9).guarantee, "options": {},
    }  # fmt: skip
    return base | changes


# -- the printed formulas ---------------------------------------------------------------------------------------


def test_the_theorems_algebra_is_right():
    """Equation 16 at the Theorem's beta is equation 14 exactly: 3/2 is the constant that this beta gives."""
    for best in (1, 7, 300):
        for n in (2, 6, 8):
            beta = theorem_beta(best, n)
            log_n = math.log(n)
            assert best * (1 + beta) / (2 * beta) + log_n / (1 - beta) == pytest.approx(
                theorem_bound(best, n)
            )
            assert Hedge(beta).bound({"expert_loss": np.full(n, float(best))}, 0) <= theorem_bound(
                best, n
            )


def test_the_theorems_beta_is_none_without_mistakes():
    assert theorem_beta(0, 6) == 0.0
    with pytest.raises(InputError, match="between 0 and 1"):
        Hedge(theorem_beta(0, 6))
    assert theorem_bound(0, 6) == pytest.approx(math.log(6))


# -- the counter-examples ---------------------------------------------------------------------------------------


@given(st.integers(1, 400), st.floats(3.2, 1e6))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_loud_expert_breaks_the_theorem_with_its_own_beta(best, ratio):
    example = loud_expert(ratio, best, rounds=best + 1000)
    beta = math.sqrt(best) / (math.sqrt(best) + math.sqrt(math.log(2)))
    assert example.beta == pytest.approx(beta)
    assert example.best == best
    assert (
        example.mistakes["scores"][-1]
        == best + math.floor(math.log(ratio) / math.log(1 / beta)) + 1
    )
    assert example.value("theorem") > best + 1.5 * math.sqrt(best * math.log(2)) + math.log(2)
    assert "theorem" in example.breaks
    assert not PROVED & set(example.breaks)
    assert (
        "theorem, loss" not in example.breaks
    )  # what Hedge's theorem is about keeps the printed bound at this beta


@pytest.mark.parametrize(
    ("ratio", "best", "broken"), [(4, 25, True), (3, 400, True), (2.5, 400, False), (2, 25, False)]
)
def test_how_loud_an_expert_must_be(ratio, best, broken):
    """ln ratio against 1.5 ln 2: scores 2.83 times as large are enough when M_min is large."""
    assert ("theorem" in loud_expert(ratio, best, rounds=3 * best).breaks) is broken


def test_with_a_perfect_expert_the_mistakes_have_no_bound():
    """M_min = 0, the beta of the experiments, T = 200: the printed bound is ln 2."""
    counts = []
    for ratio in (10, 1e3, 1e5):
        example = loud_expert(ratio)
        assert example.best == 0
        assert example.bounds["theorem"] == pytest.approx(math.log(2))
        assert example.beta == horizon_beta(200, 2)
        counts.append(int(example.mistakes["scores"][-1]))
        assert counts[-1] == min(200, math.floor(math.log(ratio) / math.log(1 / example.beta)) + 1)
        assert example.mistakes["vote"][-1] == 1
        assert not PROVED & set(example.breaks)
    assert counts == [41, 121, 200]


def test_one_mistake_is_too_many_whatever_the_discount():
    """The limit of the Theorem's beta for M_min = 0: even then the first round is lost, and 1 > ln 2."""
    for beta in (1e-12, 1e-3, 0.5, 0.999):
        assert "theorem" in loud_expert(1e3, beta=beta).breaks


@given(st.integers(0, 300), st.one_of(st.none(), st.floats(0.05, 0.99)))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_two_experts_that_never_agree_break_it_for_the_vote(best, beta):
    example = split_vote(best, beta)
    assert example.best == best
    for combination in ("scores", "vote"):
        assert example.mistakes[combination].tolist() == list(range(1, 2 * best + 2))
    assert example.value("vote") > theorem_bound(best, 2)
    assert "theorem" in example.breaks
    assert not PROVED & set(example.breaks)


@pytest.mark.parametrize("ratio", [4, 20, 100])
def test_oddm_itself_breaks_it(ratio):
    """Trained classifiers, C = 5, no scaling of the projection (as printed), the Theorem's beta for M_min = 1."""
    example = learned_experts(ratio)
    assert example.best == 1
    assert example.mistakes["oddm"].tolist() == example.mistakes["scores"].tolist()
    assert example.mistakes["oddm"][-1] == 2 + math.floor(
        math.log(ratio) / math.log(1 / theorem_beta(1, 2))
    )
    assert example.breaks == ["theorem", "step"]


def test_streams_that_cannot_be_built_are_refused():
    with pytest.raises(InputError, match="ratio >= 1"):
        loud_expert(0.5)
    with pytest.raises(InputError, match="best < rounds"):
        loud_expert(4, best=10, rounds=10)
    with pytest.raises(InputError, match="fewer than no mistakes"):
        split_vote(-1)


# -- runs -------------------------------------------------------------------------------------------------------


def test_every_mixer_is_held_to_its_own_claims():
    hedged = ["theorem", "theorem, loss", "step", "hedge"]
    claims = {
        "scores": (row(), hedged),
        "vote": (row(group="mixers", options={"combine": "vote"}), [*hedged, "vote"]),
        "simplex": (
            row(beta=None, bound=89.5, guarantee="mistakes", options={"mixer": "loss"}),
            ["simplex"],
        ),
        "log-loss": (
            row(beta=None, bound=31.3, guarantee="mistakes", options={"mixer": "log-loss"}),
            ["log-loss"],
        ),
        "nothing known": (
            row(beta=None, bound=None, guarantee="none is known for this combination"),
            [],
        ),
        "one expert": (row(expert_mistakes=[30], expert_loss=[30.0]), []),
        "another group": (row(group="ablation"), []),
    }
    for name, (given_row, expected) in claims.items():
        assert claims_of([given_row])["claim"].tolist() == expected, name
    [log_loss] = claims_of([claims["log-loss"][0]])["bound"]
    assert log_loss == pytest.approx((21 + math.log(2)) / math.log(2))


def test_claims_stand_beside_what_they_bound():
    rows = [row(), row(trial=1, mistakes=20), row(task="webcam", mistakes=1)]
    claims = claims_of(rows)
    theorem = claims[claims["claim"] == "theorem"].set_index(["task", "trial"])
    assert theorem["broken"].to_dict() == {
        ("dslr", 0): True,
        ("dslr", 1): False,
        ("webcam", 0): False,
    }
    assert theorem["bounded"].tolist() == theorem["mistakes"].tolist() == [30, 20, 1]
    assert set(theorem["best"]) == {21}
    assert theorem["nearest"].max() == pytest.approx(30 / theorem_bound(21, 2))
    assert set(claims[claims["claim"] == "hedge"]["bounded"]) == {25.5}
    assert len(claims_of([row(group="ablation")])) == 0
