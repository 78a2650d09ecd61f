"""Passive-aggressive regression and its transfer under Hedge, against their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.core.errors import InputError
from hedgerow.regression.build import Sources
from hedgerow.regression.passive import EPSILON, METHODS, RULES, PassivePlan, build


def task(seed=0, m=3, stream=150):
    rng = np.random.default_rng(seed)
    X, S = rng.normal(size=(200, m)), rng.normal(size=(stream, m))
    domain = np.repeat([0, 1], 100)
    y = X @ [1.0, -2.0, 0.5] + np.array([0.0, 3.0])[domain]
    return Sources(X, y, domain, np.ones(200)), S, S @ [1.0, -2.0, 0.5] + 3.0 + 0.1 * rng.normal(size=stream)


def learner(method="homotlms", rule="pa-2", C=1.0, stream=150):
    sources, S, t = task(stream=stream)
    plan = PassivePlan(method, ("a", "b"), (0.9,), rule, C)
    return build(plan, sources, S[:0], np.empty(0), 0), S, t


@pytest.mark.parametrize("rule", RULES)
def test_a_step_is_its_formula(rule):
    model, S, t = learner("pa", rule, C=0.05)
    c, sd = model.constants["y.mean"][0], model.constants["y.sd"][0]
    w = model.state["W"][-1].copy()
    for x, y in zip(S[:40], t[:40], strict=True):
        z = np.append(1.0, (x - model.constants["x.mean"]) / model.constants["x.sd"])
        v, square = (y - c) / sd, z @ z
        loss = max(0.0, abs(v - w @ z) - EPSILON)
        tau = {"pa": loss / square, "pa-1": min(0.05, loss / square), "pa-2": loss / (square + 1 / (2 * 0.05))}[rule]
        w = w + np.sign(v - w @ z) * tau * z
    model.run(S[:40], t[:40])
    np.testing.assert_allclose(model.state["W"][-1], w, rtol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_blocks_are_rows_and_the_bound_holds(method):
    model, S, t = learner(method)
    twin = model.copy()
    t[::10] = np.nan
    block = model.run(S, t)
    rows = [twin.run(S[i : i + 1], t[i : i + 1]) for i in range(len(t))]
    np.testing.assert_allclose(block.predictions, [row.predictions[0] for row in rows], rtol=1e-12)
    np.testing.assert_allclose(model.weights, twin.weights)
    known = ~np.isnan(t)
    length = np.ptp(model.state["range"]) * model.constants["y.sd"][0]
    losses = np.minimum(np.abs(block.predictions - t)[known] / length, 1)
    assert (0.5 * losses**2 if method == "homotl-1" else losses).sum() <= model.bound * (1 + 1e-12)


def test_intervals_cover_as_they_promise():
    model, S, t = learner(stream=3000)
    model.run(S, t)
    assert abs(model.covered[0] - 0.9) < 0.03


def test_the_right_source_is_trusted_and_transfer_helps():
    model, S, t = learner("homotlms")
    alone, _, _ = learner("pa")
    transfer = np.mean((model.run(S, t).predictions - t)[:30] ** 2)
    assert transfer < np.mean((alone.run(S, t).predictions - t)[:30] ** 2)
    assert model.expert_names == ["source a", "source b", "target"]
    assert model.weights[1] > model.weights[0]


def test_what_is_no_method_or_rule_is_refused():
    for plan in (
        PassivePlan("oddm", (), (0.9,)), PassivePlan("pa", (), (0.9,), "pa-3"), PassivePlan("pa", (), (0.9,), C=0.0)
    ):  # fmt: skip
        with pytest.raises(InputError):
            plan.check()
