"""What must not matter: the order of the sources, the names of the classes, the unit of measurement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import (
    METHODS,
    PAPER,
    as_table,
    assert_same_state,
    classifier,
    fitted,
    law,
    make_task,
    projections,
    seeds,
)


@pytest.mark.parametrize("method", METHODS)
@given(seeds)
@law(8)
def test_permuting_the_sources_permutes_the_weights_and_nothing_else(method, seed):
    task = make_task(seed, n=3)
    X, y, domain = (array[np.random.default_rng(0).permutation(87)] for array in as_table(task))
    new_number = np.array([2, 0, 1])
    renumbered = np.where(domain >= 0, new_number[domain], domain)
    a = classifier(method, refresh_every=10).fit(X, y, sample_domain=domain)
    b = classifier(method, refresh_every=10).fit(X, y, sample_domain=renumbered)
    np.testing.assert_array_equal(
        a.predict_then_learn(task.X, task.y), b.predict_then_learn(task.X, task.y)
    )
    np.testing.assert_allclose(a.predict_proba(task.X), b.predict_proba(task.X), atol=1e-9)
    assert a.bound_ == pytest.approx(b.bound_)
    assert a.hedge_loss_ == pytest.approx(b.hedge_loss_)
    where = {name: i for i, name in enumerate(b.expert_names_)}

    def renamed(name):
        return name[:-1] + str(new_number[int(name[-1])]) if name[-1].isdigit() else name

    order = [where[renamed(name)] for name in a.expert_names_]
    assert sorted(order) == list(range(len(order)))
    np.testing.assert_allclose(a.weights_, b.weights_.array[order], atol=1e-10)
    np.testing.assert_allclose(
        a.discrepancy_, b.discrepancy_.array[new_number], rtol=1e-6, atol=1e-9
    )


def relabelled(task, names):
    def of(y):
        return (
            None
            if y is None
            else np.array([None if label is None else names[label] for label in y], dtype=object)
        )

    sources = [type(d)(d.name, d.X, of(d.y)) for d in task.sources]
    return task._replace(sources=sources, y=of(task.y))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "names",
    [
        {"c0": 10, "c1": 20, "c2": 30},
        {"c0": "apple", "c1": "pear", "c2": "plum"},
        {"c0": (0, 1), "c1": (0, 2), "c2": (1,)},
    ],
    ids=["numbers", "text", "tuples"],
)
def test_names_in_the_same_order_change_nothing_but_the_names(method, names):
    task = make_task(1, missing=0.2)
    a = fitted(task, method)
    b = fitted(relabelled(task, names), method)
    plain = a.predict_then_learn(task.X, task.y)
    other = b.predict_then_learn(task.X, relabelled(task, names).y)
    assert [names[str(label)] for label in plain] == list(other)
    assert_same_state(a.learner_.arrays(), b.learner_.arrays())


@pytest.mark.parametrize("method", METHODS)
@given(seeds, st.permutations([0, 1, 2]), st.sampled_from([None, "tca"]))
@law(8)
def test_relabelling_the_classes_relabels_the_predictions(method, seed, permutation, aligner):
    """In any order, away from ties: with W = 0 the lowest class wins, so the heads start from small generic weights."""
    names = {f"c{k}": f"c{permutation[k]}" for k in range(3)}
    task = make_task(seed, missing=0.2)
    other = relabelled(task, names)
    a, b = (fitted(t, method, aligner=aligner, refresh_every=10) for t in (task, other))
    if "A" in a.learner_.arrays():
        np.testing.assert_allclose(projections(a), projections(b), atol=1e-6)
    if method in PAPER:
        W = np.random.default_rng(seed).normal(scale=0.1, size=a.learner_.W.shape)
        a.learner_.W[:] = W
        b.learner_.W[:, list(permutation)] = W
    predictions = a.predict_then_learn(task.X, task.y)
    np.testing.assert_array_equal(
        [names[label] for label in predictions], b.predict_then_learn(other.X, other.y)
    )
    np.testing.assert_allclose(a.weights_, b.weights_, atol=1e-9)
    assert a.mistakes_ == b.mistakes_


@pytest.mark.parametrize("method", ["paio"])
@given(seeds)
@law(10)
def test_swapping_two_classes_swaps_the_predictions_from_the_very_start(method, seed):
    """With two classes a rival is never a choice, and PAIO starts at the source's weights: no ties at all."""
    task = make_task(seed, K=2)
    names = {"c0": "c1", "c1": "c0"}
    other = relabelled(task, names)
    a = fitted(task, method)
    b = fitted(other, method)
    predictions = a.predict_then_learn(task.X, task.y)
    np.testing.assert_array_equal(
        [names[label] for label in predictions], b.predict_then_learn(other.X, other.y)
    )


def scaled(task, c):
    sources = [type(d)(d.name, c * d.X, d.y) for d in task.sources]
    return task._replace(
        sources=sources, warmup=type(task.warmup)("t", c * task.warmup.X), X=c * task.X
    )


@pytest.mark.parametrize("reading", ["general", "authors"])
@pytest.mark.parametrize("method", METHODS)
@given(seeds, st.sampled_from([2.0**-60, 0.5, 3.0, 1e-9, 1e9]))
@law(8)
def test_the_unit_of_measurement_does_not_matter(method, reading, seed, c):
    task = make_task(seed, new_classes=1)
    other = scaled(task, c)
    a, b = (fitted(t, method, reading=reading, refresh_every=10) for t in (task, other))
    np.testing.assert_array_equal(
        a.predict_then_learn(task.X, task.y), b.predict_then_learn(other.X, other.y)
    )
    np.testing.assert_allclose(a.weights_, b.weights_, atol=1e-9)


def test_without_such_preprocessing_it_does():
    task = make_task(0)
    a, b = (fitted(t, "homotlms", preprocess=()) for t in (task, scaled(task, 100.0)))
    a.predict_then_learn(task.X, task.y), b.predict_then_learn(100 * task.X, task.y)
    assert not np.allclose(a.learner_.W, b.learner_.W)
