"""The second-order head: its formulas, its compiled loop against the plain one, and that models with it resume."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law, seeds
from support.plain_heads import step

from hedgerow import OnlineTransferClassifier, PaperOptions
from hedgerow.core.errors import InputError
from hedgerow.heads import AROW_RULES, make_head

rules = st.sampled_from(AROW_RULES)


def rows(seed, B=40, K=4, d=5, missing=0.2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(B, d)), np.where(
        rng.random(B) < missing, -1, rng.integers(0, K, size=B)
    )


@given(seeds, st.floats(0.01, 100))
@law(25)
def test_the_inverse_of_the_memory_is_the_gram_matrix_of_what_taught(seed, C):
    Z, y = rows(seed)
    head = make_head("arow", C)
    W = np.zeros((4, 5))
    S = head.memory(5)
    taught = []
    for z, label in zip(Z, y, strict=True):
        before = W.copy()
        head.block(W, z[None], np.array([label]), memory=S)
        taught += [z] if not np.array_equal(before, W) else []
    G = np.array(taught).reshape(-1, 5)
    np.testing.assert_allclose(np.linalg.inv(S), np.eye(5) + 2 * C * G.T @ G, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(W.sum(axis=0), 0, atol=1e-8)


@given(seeds, rules)
@law(20)
def test_with_a_memory_that_stays_it_is_pa2(seed, rule):
    Z, y = rows(seed, missing=0)
    head = make_head(rule, 0.8)
    W = np.zeros((4, 5))
    theirs = np.zeros((4, 5))
    for z, label in zip(Z, y, strict=True):
        head.block(W, z[None], np.array([label]), memory=head.memory(5))
        step(theirs, z, int(label), "pa2", 0.8)
    np.testing.assert_allclose(W, theirs, atol=1e-10)


@given(seeds, rules)
@law(20)
def test_a_label_lowers_its_own_loss_and_the_memory_only_shrinks(seed, rule):
    Z, y = rows(seed, missing=0)
    head = make_head(rule, 2.0)
    W = np.zeros((4, 5))
    S = head.memory(5)
    for z, label in zip(Z, y, strict=True):
        before = S.copy()
        f = head.block(W, z[None], np.array([label]), memory=S)[0]
        rival = np.delete(np.arange(4), label)[np.delete(f, label).argmax()]
        after = W @ z
        if f[label] - f[rival] < 1:
            assert f[label] - f[rival] < after[label] - after[rival] < 1
        change = before - S
        spectrum = np.linalg.eigvalsh(change) if rule == "arow" else change
        assert spectrum.min() > -1e-12
        assert (np.linalg.eigvalsh(S) if rule == "arow" else S).min() > 0


def test_it_finds_the_classes_of_an_ill_scaled_stream_sooner():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(600, 12)) * np.geomspace(1, 0.02, 12)
    y = (Z[:, -1] + Z[:, -2] > 0).astype(np.int64)  # what matters is in the smallest directions
    wrong = {
        rule: (make_head(rule, 50.0).block(np.zeros((2, 12)), Z, y).argmax(axis=1) != y).mean()
        for rule in ("arow", "arow-diagonal", "pa1")
    }
    assert wrong["arow"] < 0.6 * wrong["pa1"]
    assert wrong["arow-diagonal"] < wrong["pa1"]


def test_what_it_cannot_keep():
    with pytest.raises(InputError, match=r"20000 x 20000.*arow-diagonal"):
        make_head("arow", 1.0).memory(20_000)
    assert make_head("arow-diagonal", 1.0).memory(20_000).shape == (1, 20_000)
    with pytest.raises(InputError, match="C=0"):
        make_head("arow", 0)


def test_the_estimator_keeps_one_memory_for_each_online_head():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 6))
    y = rng.integers(0, 3, 60)
    domain = np.repeat([0, 1, -1], 20)
    clf = OnlineTransferClassifier("oddm-fixed", options=PaperOptions(head="arow", dim=4)).fit(
        X, y, sample_domain=domain
    )
    memory = clf.learner_.state["memory"]
    np.testing.assert_array_equal(memory, np.stack([np.eye(4)] * 2))
    clf.partial_fit(X[40:], y[40:])
    assert (clf.learner_.state["memory"][:, 0, 0] < 1).all()
