"""The twelve places where paper and code differ: each is an option that changes something, and presets set them all."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from support.laws import PAPER, fitted, make_task, projections

from hedgerow import split
from hedgerow.core.errors import InputError
from hedgerow.methods import ANSWERS, reading_of

TWELVE = {  # algorithms.md, section 2: paper, authors' code
    "tau": ("printed", "original"),
    "source_pass": ("average", "last"),
    "target_mean": ("stream", "warmup"),
    "unseen": ("skip", "zero"),
    "refresh_every": (
        10,
        10,
    ),  # the text's 10 for Office+Caltech; its 50 for PIE comes with those tasks
    "split_rule": ("drawn", "fixed"),
    "preprocess": (("zscore",), ("row-minmax", "unit")),
    "projected": ("plain", "unit"),
    "beta_rule": ("ln 2n", "ln 2"),
    "inverse": ("pinv", "woodbury"),
    "lam": (1.0, 0.1),
    "guarantee": ("theorem", "proved"),
}


@pytest.mark.parametrize("option", TWELVE)
def test_presets_set_what_the_table_of_differences_says(option):
    paper, authors = TWELVE[option]
    for method in ("oddm", "oddm-fixed"):
        assert getattr(reading_of("paper", method), option) == paper
        assert getattr(reading_of("authors", method), option) == authors
        assert getattr(reading_of("table", method), option) == (1.0 if option == "lam" else authors)


def test_baselines_of_the_table_have_their_own_features_and_average():
    for method in set(PAPER) - {"oddm", "oddm-fixed"}:
        reading = reading_of("table", method)
        assert reading.preprocess == ("row-minmax",)
        assert reading.source_pass == "average"


def test_a_reading_says_what_it_changes_of_its_preset():
    assert reading_of("authors", lam=1.0, unseen="skip").changes() == {"lam": 1.0, "unseen": "skip"}
    assert reading_of("table", "paio").changes() == {}
    assert reading_of(reading_of("paper", lam=3.0), tau="original").changes() == {
        "lam": 3.0,
        "tau": "original",
    }


def outcome(task, **options):
    """Everything that can be seen of a run."""
    clf = fitted(task, "oddm", reading="authors", horizon=len(task.y), **options)
    start = copy.deepcopy(clf.learner_.arrays())
    trace = clf.learner_.run(task.X, np.array([int(label[1]) for label in task.y]))
    return clf, start, trace


def test_the_inverse_changes_nothing():
    """Number 10: I + PSD is always invertible, so the branch of the text is dead."""
    task = make_task(3, n=3, K=8, stream=60)
    a, _, plain = outcome(task)
    b, _, other = outcome(task, inverse="pinv")
    np.testing.assert_allclose(plain.scores, other.scores, atol=1e-10)
    np.testing.assert_array_equal(plain.predictions, other.predictions)
    np.testing.assert_allclose(projections(a), projections(b), atol=1e-10)


def test_the_guarantee_changes_only_what_is_promised():
    task = make_task(3, n=3, K=8, stream=60)
    a, _, plain = outcome(task)
    b, _, other = outcome(task, guarantee="theorem")
    np.testing.assert_array_equal(plain.scores, other.scores)
    best = a.learner_.arrays()["expert_loss"].min()
    log_n = np.log(6)
    assert b.bound_ == pytest.approx(best + 1.5 * np.sqrt(log_n * best) + log_n)
    beta = a.learner_.plan.mixer.beta
    assert a.bound_ == pytest.approx((best * np.log(1 / beta) + log_n) / (1 - beta))
    assert "as printed" in b.guarantee_
    assert "not the mistakes" in a.guarantee_


def test_the_split_is_drawn_or_fixed():
    """Number 6: `split` draws with a seed and takes the published order without one."""
    target = make_task(0).sources[0]
    fixed = split(target, seed=None)
    drawn = split(target, seed=1)
    np.testing.assert_array_equal(fixed[0].X, target.X[: len(fixed[0])])
    assert not np.array_equal(drawn[0].X, fixed[0].X)
    np.testing.assert_array_equal(split(target, seed=1)[0].X, drawn[0].X)


@pytest.mark.parametrize(("rule", "experts"), [("ln 2", 2), ("ln 2n", 6)])
def test_the_discount_by_reading(rule, experts):
    T = 110
    clf = fitted(make_task(0, n=3), "oddm", beta_rule=rule, horizon=T)
    assert clf.learner_.plan.mixer.beta == pytest.approx(
        np.sqrt(T) / (np.sqrt(T) + np.sqrt(np.log(experts)))
    )


def test_the_baselines_keep_the_discount_of_their_own_sources():
    task = make_task(0, n=3)
    for method, experts in (("homotl-2", 2), ("homotlms", 4)):
        for rule in ("ln 2", "ln 2n"):
            beta = fitted(task, method, beta_rule=rule, horizon=100).learner_.plan.mixer.beta
            assert beta == pytest.approx(10 / (10 + np.sqrt(np.log(experts))))


def test_an_explicit_discount_and_without_a_horizon_the_rule_is_anytime():
    task = make_task(0)
    assert fitted(task, "oddm", beta=0.3).learner_.plan.mixer.beta == 0.3
    assert fitted(task, "oddm").learner_.plan.mixer.beta is None


@pytest.mark.parametrize("option", sorted(ANSWERS))
def test_a_value_that_is_not_known_is_answered_with_those_that_are(option):
    with pytest.raises(InputError, match=f"value of {option}.*Known: "):
        reading_of("authors", "oddm", **{option: "nonsense"})


def test_unknown_readings_and_options():
    with pytest.raises(InputError, match="did you mean 'authors'"):
        reading_of("author", "oddm")
    with pytest.raises(InputError, match="did you mean 'lam'"):
        reading_of("authors", "oddm", lamm=1.0)
