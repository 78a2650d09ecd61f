"""Checks of parts of your own: an AssertionError says what does not hold.

from hedgerow.testing import check_head
check_head(MyHead(C=1.0))
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.align import Aligner
from hedgerow.core.arrays import dense
from hedgerow.estimator import OnlineTransferClassifier, arguments_of
from hedgerow.heads import Head
from hedgerow.methods import Recipe
from hedgerow.mix import Mixer

__all__ = ["check_aligner", "check_head", "check_method", "check_mixer"]


def _holds(part: object, law: str, holds: Any) -> None:
    if not holds:
        raise AssertionError(f"{part}: broken law: {law}")


def check_aligner(aligner: Aligner) -> None:
    """Check that `fit` is repeatable, changes no argument and needs no target row, and rows are projected one by one.

    >>> from hedgerow.align import JDA
    >>> check_aligner(JDA(dim=3))
    """
    rng = np.random.default_rng(0)
    codes = np.arange(40) % 3
    source = rng.normal(size=(40, 6)) + np.eye(3, 6)[codes]
    target = rng.normal(size=(25, 6)) + 0.5
    new = rng.normal(size=(7, 6))
    before = source.copy()
    projection = aligner.fit(source, codes, target).projection
    Z = dense(projection(new))
    _holds(aligner, "fit leaves its arguments as they are", np.array_equal(before, source))
    mapped = dense(projection(projection.mapped(source)))
    _holds(aligner, "one row in the space for each row given", (len(Z), len(mapped)) == (7, 40))
    _holds(
        aligner,
        "finite rows have finite projections",
        np.isfinite(Z).all() and np.isfinite(mapped).all(),
    )
    again = dense(aligner.fit(source, codes, target).projection(new))
    _holds(aligner, "fitting again gives the same projection", np.array_equal(again, Z))
    one_by_one = np.vstack([dense(projection(row[None])) for row in new])
    _holds(
        aligner,
        "a new row is projected by itself, whatever comes with it",
        np.allclose(one_by_one, Z, atol=1e-10),
    )
    alone = dense(aligner.fit(source, codes, target[:0]).projection(new))
    _holds(aligner, "without target rows there is still a projection", np.isfinite(alone).all())


def check_head(head: Head) -> None:
    """Check that a block is its rows one by one, a missing label teaches nothing, and labels may have weights.

    >>> from hedgerow.heads import make_head
    >>> check_head(make_head("pa1", C=0.5))
    """
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 4))
    y = rng.integers(-1, 3, size=60)
    W, stepwise, even, last = (np.zeros((3, 4)) for _ in range(4))
    kept, one_kept = (
        {} if head.memory(4) is None else {"memory": head.memory(4)} for _ in range(2)
    )
    F = head.block(W, Z, y, **kept)
    total = np.zeros_like(W)
    for t in range(60):
        before = stepwise.copy()
        f = head.block(stepwise, Z[t : t + 1], y[t : t + 1], **one_kept)[0]
        _holds(
            head,
            "scores are W z, with the W before the label",
            np.allclose(f, before @ Z[t], atol=1e-10),
        )
        _holds(head, "a block scores as its rows one by one", np.allclose(f, F[t], atol=1e-10))
        _holds(
            head, "a missing label teaches nothing", y[t] >= 0 or np.array_equal(before, stepwise)
        )
        total += stepwise
    _holds(head, "a block learns as its rows one by one", np.allclose(W, stepwise, atol=1e-10))
    _holds(head, "labels teach something, into the W that was given", np.any(W != 0))
    mean = head.averaged(last, Z, y)
    _holds(
        head,
        "the average is the mean of the weights after each row",
        np.allclose(mean, total / 60, atol=1e-10),
    )
    try:
        head.block(even, Z, y, np.ones(60))
    except TypeError as error:
        _holds(head, f"a block takes the weights of labels ({error})", False)
    _holds(head, "weights of one change nothing", np.allclose(even, W, atol=1e-10))


def check_mixer(mixer: Mixer) -> None:
    """Check that weights are shares whatever the experts are called, a block is its rows, and the guarantee holds.

    >>> from hedgerow.mix import Hedge
    >>> check_mixer(Hedge(beta=0.8))
    """
    rng = np.random.default_rng(0)
    F = rng.normal(size=(50, 4, 3))
    y = rng.integers(-1, 3, size=50)
    block = mixer.run(mixer.start(4), 0, F, y)
    shares = (block.weights >= 0).all() and np.allclose(block.weights.sum(axis=1), 1)
    _holds(mixer, "weights are shares of one", shares)
    priced = (block.losses >= 0).all() and (block.losses[y < 0] == 0).all()
    _holds(mixer, "a loss is never negative, and a missing label costs nothing", priced)
    _holds(
        mixer,
        "a class that no expert knows is a loss for all",
        (mixer.losses(F, np.full(50, 3)) > 0).all(),
    )
    turned = mixer.run(mixer.start(4), 0, F[:, ::-1], y)
    _holds(
        mixer,
        "permuting the experts permutes the weights",
        np.allclose(turned.weights, block.weights[:, ::-1]),
    )
    state = mixer.start(4)
    lost = 0.0
    mistakes = 0
    for t in range(50):
        seen = int((y[:t] >= 0).sum())
        alone = mixer.combine(state, seen, F[t : t + 1])
        one = mixer.run(state, seen, F[t : t + 1], y[t : t + 1])
        _holds(
            mixer,
            "a block predicts as its rows one by one",
            np.allclose(one.scores[0], block.scores[t]),
        )
        _holds(mixer, "predicting alone gives the same scores", np.allclose(alone, one.scores))
    state = mixer.start(4)
    for t in range(
        200
    ):  # of two experts' answers the label is the one that hurts the present weights
        F = rng.normal(scale=3.0, size=(1, 4, 3))
        label = int(mixer.combine(state, t, F)[0].argmin()) if t % 2 else int(F[0, 0].argmax())
        mixed = mixer.run(state, t, F, np.array([label]))
        mistakes += int(mixed.scores[0].argmax() != label)
        lost += float(mixed.weights[0] @ mixed.losses[0])
        bound = mixer.bound(state, t + 1) + 1e-9
        if mixer.guarantee.startswith("mistakes"):
            _holds(mixer, "mistakes stay within the guarantee", mistakes <= bound)
        elif "weighted loss" in mixer.guarantee:
            _holds(mixer, "the weighted loss stays within the guarantee", lost <= bound)


def check_method(method: str | Recipe, **options: Any) -> None:
    """Check that predicting changes nothing, a block is its rows one by one, and a saved model goes on as it was.

    >>> check_method(Recipe("Mine", "per-source", aligner="coral", frozen="each"), C=0.5)
    """
    rng = np.random.default_rng(7)
    domain = np.tile([0, 1, -1], 30)
    codes = rng.integers(0, 3, size=90)
    X = rng.normal(size=(90, 8)) + 2 * np.eye(3, 8)[codes] + 0.5 * domain[:, None]
    stream = rng.normal(size=(60, 8)) - 0.5
    labels = rng.integers(0, 4, size=60)  # the last one is new
    clf = OnlineTransferClassifier(**arguments_of(method, options)).fit(
        X, codes, sample_domain=domain
    )
    saved = clf.to_bytes()
    clf.predict_proba(stream)
    _holds(method, "predicting changes nothing", clf.to_bytes() == saved)
    rows = OnlineTransferClassifier.from_bytes(saved)
    one_by_one = []
    for x, label in zip(stream, labels, strict=True):
        one_by_one.append(rows.predict_one(x))
        rows.learn_one(x, label)
    predicted = clf.predict_then_learn(stream, labels).tolist()
    _holds(
        method,
        "a saved model predicts and learns row by row what the model does in a block",
        one_by_one == predicted,
    )
