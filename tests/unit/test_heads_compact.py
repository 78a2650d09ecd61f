"""A pass over sparse rows is the pass over the same rows written out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.laws import classifier, law, make_task, seeds

from hedgerow import Domain
from hedgerow.core.constants import RULES
from hedgerow.core.errors import InputError
from hedgerow.heads import AROW_RULES, StepwiseHead, compact, make_head, train


def rows(seed, N, m, density=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, m)) * (rng.random((N, m)) < density)
    return X, rng.integers(0, 4, N)


@pytest.mark.parametrize("rule", [*RULES, *AROW_RULES])
@pytest.mark.parametrize("source_pass", ["last", "average"])
@given(seeds, st.sampled_from([0, 1, 15, 16, 17, 50]), st.sampled_from([5, 200]))
@law(10)
def test_a_sparse_pass_is_the_dense_pass(rule, source_pass, seed, N, m):
    X, y = rows(seed, N, m)
    head = make_head(rule, 0.7)
    expected = train(head, X, y, 4, source_pass)
    np.testing.assert_allclose(train(head, sp.csr_array(X), y, 4, source_pass), expected, atol=1e-9)


@dataclass(frozen=True)
class Delta(StepwiseHead):
    rule: str = "mine"
    C: float = 5.0

    def step(self, W, z, y, f):
        W[y] += 0.1 * z
        W[:] -= 0.02 * np.outer(f, z)


@pytest.mark.parametrize("source_pass", ["last", "average"])
def test_heads_of_ones_own_take_sparse_rows_too(source_pass):
    X, y = rows(0, 40, 60)
    found = train(Delta("delta", 1.0), sp.csr_array(X), y, 4, source_pass)
    np.testing.assert_allclose(found, train(Delta("delta", 1.0), X, y, 4, source_pass), atol=1e-12)


def test_entries_given_twice_are_added():
    X = sp.csr_array((np.ones(3), np.array([4, 4, 1]), np.array([0, 2, 3])), shape=(2, 9))
    columns, Z = compact(X)
    assert columns.tolist() == [1, 4]
    assert Z.tolist() == [[0, 2], [1, 0]]


def test_a_pass_that_is_not_known():
    with pytest.raises(InputError, match="did you mean 'last'"):
        train(make_head("pa", 1.0), sp.csr_array((1, 2)), np.zeros(1, int), 2, "lst")


@pytest.mark.parametrize("method", ["paio", "homotl-2", "homotlms", "oddm"])
def test_the_offline_stage_of_sparse_sources_is_that_of_dense_ones(method):
    task = make_task(3, m=12, rows=40)
    fitted = {}
    for how in (np.asarray, sp.csr_array):
        sources = [
            Domain(s.name, how(np.where(np.abs(s.X) < 0.8, 0, s.X)), s.y) for s in task.sources
        ]
        warmup = Domain(
            "warm-up", how(np.where(np.abs(task.warmup.X) < 0.8, 0, task.warmup.X)), None
        )
        clf = classifier(method, preprocess="unit", dim=3)
        fitted[how] = clf.fit_domains(sources, warmup).learner_.W
    np.testing.assert_allclose(fitted[sp.csr_array], fitted[np.asarray], atol=1e-9)
