"""The shipped checks pass for every part of ours, and name the law that a broken part breaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from hedgerow import Recipe, checks, register_method
from hedgerow.align import BDA, CORAL, JDA, TCA, Alignment, Identity, Info, Projection
from hedgerow.heads import HEADS, StepwiseHead, make_head, step
from hedgerow.methods import METHODS, Reading
from hedgerow.mix import AdaHedge, FixedShare, FixedShareLogLoss, Hedge, LogLoss, LossBased, Single, Squint

ALIGNERS = [
    Identity(), TCA(dim=3), TCA(dim=3, kernel="rbf"), JDA(dim=3), JDA(dim=50, eigenvectors="S"),
    JDA(dim=3, empty="skip"), JDA(dim=3, kernel="linear"), JDA(dim=3, kernel="rbf"), BDA(dim=3),
    BDA(dim=3, balance=1.0), CORAL(),
]  # fmt: skip
MIXERS = [
    Hedge(), Hedge(0.5), Hedge(0.9, "vote"), Hedge(None, "vote"), LossBased(), LossBased(loss="softmax"),
    LossBased(loss="margin"), LossBased(combination="scores"), LossBased(combination="vote"), LogLoss(), Single(),
    AdaHedge(), AdaHedge("vote"), Squint(), Squint("vote"), FixedShare(), FixedShare("vote"), FixedShareLogLoss(),
]  # fmt: skip


@pytest.mark.parametrize("aligner", ALIGNERS, ids=repr)
def test_aligners(aligner):
    checks.check_aligner(aligner)


@pytest.mark.parametrize("name", ["perceptron", "pa", "pa1", "pa2", "pa1-printed"])
def test_heads(name):
    assert name in HEADS
    checks.check_head(make_head(name, 0.5))


@pytest.mark.parametrize("mixer", MIXERS, ids=repr)
def test_mixers(mixer):
    checks.check_mixer(mixer)


@pytest.mark.parametrize("reading", ["general", "authors", "paper", "table"])
@pytest.mark.parametrize("name", ["pa", "paio", "homotl-1", "homotl-2", "homotlms", "oddm-fixed", "oddm"])
def test_methods(name, reading):
    assert name in METHODS
    checks.check_method(name, reading=reading)


@pytest.mark.parametrize("name", ["hedgerow", "hedgerow-linear"])
def test_our_own_methods(name):
    checks.check_method(name)


def test_a_method_of_ones_own():
    recipe = Recipe("Pooled TCA", "shared", "tca", "each", "pooled", "loss", refresh=True)
    register_method("pooled-tca-for-test", recipe, replace=True)
    try:
        checks.check_method("pooled-tca-for-test", reading=Reading(refresh_every=5))
    finally:
        METHODS.unregister("pooled-tca-for-test")


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

    def _weigh(self, state, labels, losses):
        return super()._weigh(state, labels, losses * np.arange(1, losses.shape[1] + 1))


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
        (checks.check_head, Forgetful("x", 1.0), "labels teach something"),
        (checks.check_head, Eager("x", 1.0), "scores are W z"),
        (checks.check_head, Unweighted("x", 1.0), "a block takes the weights of labels"),
        (checks.check_mixer, Boastful(0.5), "weighted loss stays within the guarantee"),
        (checks.check_mixer, Partial(0.5), "permuting the experts permutes the weights"),
        (checks.check_aligner, Batch(), "a new row is projected by itself"),
    ],
)
def test_a_broken_part_is_told_which_law_it_breaks(check, part, words):
    with pytest.raises(AssertionError, match=f"broken law: .*{words}"):
        check(part)
