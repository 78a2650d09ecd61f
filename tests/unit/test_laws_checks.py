"""The shipped checks pass for every part of ours, and name the law that a broken part breaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from support.laws import assert_same_state
from support.plain_heads import step

from hedgerow import Recipe
from hedgerow.align import BDA, CORAL, JDA, TCA, Alignment, Identity, Info, Projection
from hedgerow.core.arrays import dense
from hedgerow.heads import AROW_RULES, HEADS, StepwiseHead, make_head
from hedgerow.methods import METHODS, Reading
from hedgerow.mix import Hedge, LogLoss, LossBased, Single
from hedgerow.testing import check_aligner, check_head, check_method, check_mixer

ALIGNERS = [
    Identity(), TCA(dim=3), JDA(dim=3), JDA(dim=50, eigenvectors="S"), JDA(dim=3, empty="skip"), BDA(dim=3),
    BDA(dim=3, balance=1.0), CORAL(),
]  # fmt: skip
MIXERS = [
    Hedge(), Hedge(0.5), Hedge(0.9, "vote"), Hedge(None, "vote"), LossBased(), LossBased(loss="softmax"),
    LossBased(loss="margin"), LossBased(combination="scores"), LossBased(combination="vote"), LogLoss(),
]  # fmt: skip


@pytest.mark.parametrize("aligner", ALIGNERS, ids=repr)
def test_aligners(aligner):
    check_aligner(aligner)


@pytest.mark.parametrize("aligner", ALIGNERS, ids=repr)
def test_sparse_rows_other_numbers_of_classes_and_single_precision(aligner):
    rng = np.random.default_rng(0)
    codes = np.arange(40) % 3
    source = rng.normal(size=(40, 6)) + np.eye(3, 6)[codes]
    target = rng.normal(size=(25, 6)) + 0.5
    new = rng.normal(size=(7, 6))
    projection = aligner.fit(source, codes, target).projection
    sparse = aligner.fit(sp.csr_array(source), codes, sp.csr_array(target)).projection
    renamed = aligner.fit(source, 2 - codes, target).projection
    products = (
        projection(new) @ projection(new).T
    )  # which a rotation of the space leaves as they are
    for Z in (dense(sparse(sp.csr_array(new))), renamed(new)):
        np.testing.assert_allclose(Z @ Z.T, products, atol=1e-6)
    assert projection(new.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("mixer", [*MIXERS, Single()], ids=repr)
def test_a_missing_label_changes_nothing_and_the_likeliest_class_is_predicted(mixer):
    n = 1 if isinstance(mixer, Single) else 4
    F = np.random.default_rng(0).normal(size=(50, n, 3))
    state = mixer.start(n)
    block = mixer.run(state, 0, F, np.full(50, -1))
    assert_same_state(state, mixer.start(n))
    np.testing.assert_allclose(block.weights, 1 / n)
    shares = mixer.probabilities(block.scores)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (shares >= 0).all()
    np.testing.assert_array_equal(shares.argmax(axis=1), block.scores.argmax(axis=1))


@pytest.mark.parametrize("name", HEADS)
def test_heads(name):
    check_head(make_head(name, 0.5))


@pytest.mark.parametrize("mixer", MIXERS, ids=repr)
def test_mixers(mixer):
    check_mixer(mixer)


@pytest.mark.parametrize("reading", ["general", "authors", "paper", "table"])
@pytest.mark.parametrize(
    "name", ["pa", "paio", "homotl-1", "homotl-2", "homotlms", "oddm-fixed", "oddm"]
)
def test_methods(name, reading):
    assert name in METHODS
    check_method(name, reading=reading)


@pytest.mark.parametrize("name", ["hedgerow", "hedgerow-linear"])
def test_our_own_methods(name):
    check_method(name)


@pytest.mark.parametrize("head", AROW_RULES)
@pytest.mark.parametrize("method", ["homotlms", "oddm"])
def test_heads_that_remember_in_a_method(method, head):
    check_method(method, head=head)


def test_a_method_of_ones_own():
    recipe = Recipe("Pooled TCA", "shared", "tca", "each", "pooled", "loss", refresh=True)
    check_method(recipe, reading=Reading(refresh_every=5))


@dataclass(frozen=True)
class Forgetful(StepwiseHead):
    """Learns nothing."""

    rule: str = "mine"
    C: float = 5.0

    def step(self, W, z, y, f):
        pass


@dataclass(frozen=True)
class Eager(StepwiseHead):
    """Scores after the label, which is too late."""

    rule: str = "mine"
    C: float = 5.0

    def step(self, W, z, y, f):
        step(W, z, y, "pa", self.C)

    def block(self, W, Z, y):
        F = super().block(W, Z, y)
        return F + W[0, 0]


@dataclass(frozen=True)
class Unweighted(StepwiseHead):
    """Takes no weights of labels."""

    rule: str = "mine"
    C: float = 5.0

    def step(self, W, z, y, f):
        step(W, z, y, "pa", self.C)

    def block(self, W, Z, y):
        return super().block(W, Z, y)


class Boastful(Hedge):
    """Promises no loss at all."""

    def bound(self, state, seen):
        return 0.0


class Partial(Hedge):
    """Trusts the first expert."""

    def weigh(self, state, labels, losses):
        return super().weigh(state, labels, losses * np.arange(1, losses.shape[1] + 1))


@dataclass(frozen=True)
class Batch:
    """Centres whatever rows come together: no projection of a single row."""

    def fit(self, source, codes, target):
        class Centred(Projection):
            def __call__(self, X):
                return X - X.mean(axis=0)

        return Alignment(Centred(), Info())


@pytest.mark.parametrize(
    ("check", "part", "words"),
    [
        (check_head, Forgetful("x", 1.0), "labels teach something"),
        (check_head, Eager("x", 1.0), "scores are W z"),
        (check_head, Unweighted("x", 1.0), "a block takes the weights of labels"),
        (check_mixer, Boastful(0.5), "weighted loss stays within the guarantee"),
        (check_mixer, Partial(0.5), "permuting the experts permutes the weights"),
        (check_aligner, Batch(), "a new row is projected by itself"),
    ],
)
def test_a_broken_part_is_told_which_law_it_breaks(check, part, words):
    with pytest.raises(AssertionError, match=f"broken law: .*{words}"):
        check(part)
