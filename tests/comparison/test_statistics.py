"""McNemar's test and the measures of calibration against what others compute."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as reference_log_loss

from hedgerow.evaluate.calibration import Reliability, brier, log_loss
from hedgerow.evaluate.mcnemar import against_each, mcnemar


def predictions(n=300, K=4):
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(K), size=n)
    return p, np.array([rng.choice(K, p=row) for row in p])


def test_log_loss_and_brier_are_those_of_scikit_learn():
    p, codes = predictions()
    assert log_loss(p, codes) == pytest.approx(reference_log_loss(codes, p, labels=range(4)))
    assert brier(p, codes) == pytest.approx(brier_score_loss(np.eye(4)[codes], p, scale_by_half=False))


def test_probabilities_that_are_true_have_a_small_error_and_doubled_confidence_a_large_one():
    p, codes = predictions(20_000)
    assert Reliability.of(p, codes).error < 0.015
    sharper = p**3 / (p**3).sum(axis=1, keepdims=True)
    assert Reliability.of(sharper, codes).error > 0.1


def test_bins_of_parts_are_bins_of_the_whole():
    p, codes = predictions()
    whole, parts = Reliability.of(p, codes), [Reliability.of(p[s], codes[s]) for s in (slice(0, 70), slice(70, None))]
    pooled = Reliability.pooled(parts)
    assert pooled.count.tolist() == whole.count.tolist()
    assert pooled.error == pytest.approx(whole.error)


def test_mcnemar_counts_out_the_binomial():
    from math import comb

    rng = np.random.default_rng(2)
    a, b = rng.random(80) < 0.3, rng.random(80) < 0.5
    lesser, m = min((a & ~b).sum(), (b & ~a).sum()), (a != b).sum()
    exact = min(1.0, 2 * sum(comb(int(m), k) for k in range(lesser + 1)) / 2 ** int(m))
    found = mcnemar("a", "b", {"a": a, "b": b})
    assert found.p == pytest.approx(exact)
    assert found.difference == pytest.approx(100 * (a.mean() - b.mean()))
    assert mcnemar("a", "b", {"a": a, "b": a}).p == 1.0
    [one] = against_each("a", {"a": a, "b": b})
    assert one.adjusted == found.p
