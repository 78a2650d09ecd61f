"""Laws that every aligner, head, mixer and method obeys, to be run on parts of your own.

    from hedgerow.checks import check_head
    check_head(MyHead(C=1.0))

A broken law is an AssertionError that names the part and the law. The data is made here, from fixed seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hedgerow.align import Aligner
from hedgerow.core.arrays import Array, dense
from hedgerow.core.errors import InputError
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.heads import Head
from hedgerow.learner import State
from hedgerow.mix import Mixer, Single

__all__ = ["check_aligner", "check_head", "check_method", "check_mixer"]

Law = Callable[[Any, str], None]


def _laws(part: object) -> Law:
    """The function that raises an AssertionError with the name of the part and the law, unless it holds."""

    def law(holds: Any, text: str) -> None:
        if not holds:
            raise AssertionError(f"{part}: broken law: {text}")

    return law


def check_aligner(aligner: Aligner) -> None:
    """Check the laws of an aligner: repeatable, pure, row by row, sparse like dense, float32 kept, no target needed.

    Parameters
    ----------
    aligner
        The part, with its options.

    Raises
    ------
    AssertionError
        If it breaks a law, which the message names.

    Examples
    --------
    >>> from hedgerow.align import JDA
    >>> check_aligner(JDA(dim=3))
    """
    import scipy.sparse as sp

    law, rng, codes = _laws(aligner), np.random.default_rng(0), np.arange(40) % 3
    source = rng.normal(size=(40, 6)) + np.eye(3, 6)[codes]
    target, new = rng.normal(size=(25, 6)) + 0.5, rng.normal(size=(7, 6))
    before = {"source": source.copy(), "codes": codes.copy(), "target": target.copy()}
    first = aligner.fit(source, codes, target).projection
    Z, mapped = dense(first(new)), dense(first(first.mapped(source)))
    law(_same(before, {"source": source, "codes": codes, "target": target}), "fit leaves its arguments as they are")
    law(len(Z) == 7 and len(mapped) == 40 and Z.shape[1] == mapped.shape[1], "one row in the space for each row given")
    law(np.isfinite(Z).all() and np.isfinite(mapped).all(), "finite rows have finite projections")
    again = aligner.fit(source, codes, target).projection
    law(np.array_equal(dense(again(new)), Z), "fitting again gives the same projection")
    one_by_one = np.vstack([dense(first(row[None])) for row in new])
    law(np.allclose(one_by_one, Z, atol=1e-10), "a new row is projected by itself, whatever comes with it")
    law(dense(first(new.astype(np.float32))).dtype == np.float32, "float32 rows stay float32")
    sparse = aligner.fit(sp.csr_array(source), codes, sp.csr_array(target)).projection
    renamed = aligner.fit(source, 2 - codes, target).projection
    for other, text in (
        (sparse(sp.csr_array(new)), "sparse rows give what dense rows give"),
        (renamed(new), "the numbering of the classes does not matter"),
    ):  # by inner products, which a rotation of the space, or the sign of an axis, leaves as they are
        law(np.allclose(dense(other) @ dense(other).T, Z @ Z.T, atol=1e-6), text)
    alone = aligner.fit(source, codes, target[:0]).projection
    law(np.isfinite(dense(alone(new))).all(), "without target rows there is still a projection")


def check_head(head: Head) -> None:
    """Check the laws of a head: a block is its rows one by one, missing labels teach nothing, weights are taken.

    Parameters
    ----------
    head
        The part, with its options.

    Raises
    ------
    AssertionError
        If it breaks a law, which the message names.

    Examples
    --------
    >>> from hedgerow.heads import make_head
    >>> check_head(make_head("pa1", C=0.5))
    """
    law, rng = _laws(head), np.random.default_rng(0)
    Z, y = rng.normal(size=(60, 4)), rng.integers(-1, 3, size=60)
    rows = Z.copy()
    for dtype in (np.float64, np.float32):
        tolerance = 1e-10 if dtype is np.float64 else 1e-3
        W, stepwise, total, last = (np.zeros((3, 4), dtype=dtype) for _ in range(4))
        kept, one_kept = ({} if (m := head.memory(4, dtype)) is None else {"memory": m} for _ in range(2))
        F = head.block(W, rows.astype(dtype), y, **kept)
        law(F.shape == (60, 3), "a block gives a score for each row and class")
        law(F.dtype == dtype and W.dtype == dtype, f"{np.dtype(dtype)} is kept")
        for t in range(60):
            before = stepwise.copy()
            f = head.block(stepwise, rows[t : t + 1].astype(dtype), y[t : t + 1], **one_kept)[0]
            law(np.allclose(f, before @ rows[t], atol=tolerance), "scores are W z, with the W before the label")
            law(np.allclose(f, F[t], atol=tolerance), "a block scores as its rows one by one")
            law(y[t] >= 0 or np.array_equal(before, stepwise), "a missing label teaches nothing")
            total += stepwise
        law(np.allclose(W, stepwise, atol=tolerance), "a block learns as its rows one by one")
        law(np.any(W != 0), "labels teach something, into the W that was given")
        mean = head.averaged(last, rows.astype(dtype), y)
        law(np.allclose(mean, total / 60, atol=tolerance), "the average is the mean of the weights after each row")
        law(np.allclose(last, W, atol=tolerance), "an averaged pass ends where a plain one does")
    law(np.array_equal(rows, Z), "the rows are left as they are")
    one_class = head.block(np.zeros((1, 4)), Z, np.zeros(60, dtype=np.int64))
    law(np.isfinite(one_class).all(), "one class alone gives finite scores")
    even, plain = np.zeros((3, 4)), np.zeros((3, 4))
    head.block(plain, rows, y)
    try:
        head.block(even, rows, y, np.ones(60))
    except TypeError as error:
        law(False, f"a block takes the weights of labels ({error})")
    law(np.allclose(even, plain, atol=1e-10), "labels of weight one teach what labels without weights do")


def check_mixer(mixer: Mixer) -> None:
    """Check the laws of a mixer: weights are shares, names do not matter, a block is its rows, the guarantee holds.

    Parameters
    ----------
    mixer
        The part, with its options.

    Raises
    ------
    AssertionError
        If it breaks a law, which the message names.

    Examples
    --------
    >>> from hedgerow.mix import Hedge
    >>> check_mixer(Hedge(beta=0.8))
    """
    law, rng = _laws(mixer), np.random.default_rng(0)
    n = 1 if isinstance(mixer, Single) else 4
    F, y = rng.normal(size=(50, n, 3)), rng.integers(-1, 3, size=50)
    after = mixer.start(n)
    block = mixer.run(after, 0, F, y)
    law(block.scores.shape == (50, 3) and block.weights.shape == (50, n), "a score a class and a weight an expert")
    law((block.weights >= 0).all() and np.allclose(block.weights.sum(axis=1), 1), "weights are shares of one")
    law(np.allclose(block.weights[0], 1 / n), "before the first label all experts weigh the same")
    law((block.losses >= 0).all(), "a loss is never negative")
    law((block.losses[y < 0] == 0).all(), "a missing label costs nothing")
    idle = mixer.start(n)
    mixer.run(idle, 0, F, np.full(50, -1))
    law(_same(idle, mixer.start(n)), "a missing label changes nothing")
    shares = mixer.probabilities(block.scores)
    law((shares >= 0).all() and np.allclose(shares.sum(axis=1), 1), "probabilities sum to one")
    law(np.array_equal(shares.argmax(axis=1), block.scores.argmax(axis=1)), "the likeliest class is the predicted one")

    state, seen = mixer.start(n), 0
    for t in range(50):
        alone = mixer.combine(state, seen, F[t : t + 1])
        one = mixer.run(state, seen, F[t : t + 1], y[t : t + 1])
        law(np.allclose(one.scores[0], block.scores[t]), "a block predicts as its rows one by one")
        law(np.allclose(alone, one.scores), "predicting alone gives the same scores")
        seen += int(y[t] >= 0)
    law(_same(after, state), "a block learns as its rows one by one, bit for bit")
    turned = np.roll(np.arange(n), 1)
    other = mixer.run(mixer.start(n), 0, F[:, turned], y)
    law(np.allclose(other.weights, block.weights[:, turned]), "permuting the experts permutes the weights")
    law(np.allclose(other.scores, block.scores), "permuting the experts changes no prediction")
    unknown_class = mixer.run(mixer.start(n), 0, F, np.full(50, 3)).losses
    law((unknown_class > 0).all(), "a class that no expert knows is a loss for all")
    for seed in range(10):
        _check_guarantee(mixer, law, n, seed)


def _check_guarantee(mixer: Mixer, law: Law, n: int, seed: int) -> None:
    """A stream against the mixer: of two experts' answers the label is the one that hurts the present weights."""
    rng = np.random.default_rng(seed)
    state, mixture, mistakes = mixer.start(n), 0.0, 0
    for t in range(80):
        F = rng.normal(scale=3.0, size=(1, n, 3))
        label = int(mixer.combine(state, t, F)[0].argmin()) if rng.random() < 0.5 else int(F[0, 0].argmax())
        mixed = mixer.run(state, t, F, np.array([label]))
        mistakes += int(mixed.scores[0].argmax() != label)
        mixture += float(mixed.weights[0] @ mixed.losses[0])
        bound = mixer.bound(state, t + 1) + 1e-9
        if mixer.guarantee.startswith("mistakes"):
            law(mistakes <= bound, "the mistakes stay within the guarantee")
        elif "weighted loss" in mixer.guarantee:
            law(mixture <= bound, "the weighted loss stays within the guarantee")


def check_method(name: str, **options: Any) -> None:
    """Check the laws of a registered method: rows are a block, predicting is pure, loading goes on, labels optional.

    Parameters
    ----------
    name
        Under which it is registered.
    **options
        Of `OnlineTransferClassifier`.

    Raises
    ------
    AssertionError
        If it breaks a law, which the message names.

    Examples
    --------
    >>> check_method("homotlms")
    """
    law = _laws(f"method {name!r}")
    X, y, domain, stream, labels = _task()
    fitted = OnlineTransferClassifier(name, **options).fit(X, y, sample_domain=domain)
    law(len(fitted.weights_) == len(fitted.expert_names_), "a weight for each expert")
    law(np.isclose(fitted.weights_.array.sum(), 1), "weights are shares of one")
    garbage = [label if d >= 0 else object() for label, d in zip(y, domain, strict=True)]
    blind = OnlineTransferClassifier(name, **options).fit(X, garbage, sample_domain=domain)
    law(_same(blind.learner_.arrays(), fitted.learner_.arrays()), "the labels of unlabelled rows are never looked at")

    before = {name: array.copy() for name, array in fitted.learner_.arrays().items()}
    for predict in (fitted.predict, fitted.predict_proba, fitted.decision_function):
        predict(stream)
    fitted.predict_one(stream[0])
    law(_same(before, fitted.learner_.arrays()), "predicting changes nothing")
    blank = _twin(fitted).learn_one(stream[0], None)
    law(blank.seen_ == fitted.seen_ and blank.mistakes_ == fitted.mistakes_, "a missing label is not counted")
    if not fitted.learner_.learns_unlabelled:
        law(_same(before, blank.learner_.arrays()), "a missing label changes nothing")
    one_by_one, block, predictions = _twin(fitted), _twin(fitted), []
    for x, label in zip(stream, labels, strict=True):
        predictions.append(one_by_one.predict_one(x))
        one_by_one.learn_one(x, label)
    blocks = [block.predict_then_learn(stream[a : a + 17], labels[a : a + 17]) for a in range(0, len(stream), 17)]
    law(predictions == np.concatenate(blocks).tolist(), "a block predicts as its rows one by one")
    rows, whole = one_by_one.learner_.arrays(), block.learner_.arrays()
    close = rows.keys() == whole.keys() and all(np.allclose(rows[name], whole[name], atol=1e-8) for name in rows)
    law(close, "a block learns as its rows one by one")
    law(block.seen_ == sum(label is not None for label in labels), "every label is learned, and only labels")
    law("new" in block.classes_, "a class first met in the stream is learned")

    half = _twin(fitted).partial_fit(stream[:40], labels[:40])
    resumed = _twin(half).partial_fit(stream[40:], labels[40:])
    half.partial_fit(stream[40:], labels[40:])
    law(_same(resumed.learner_.arrays(), half.learner_.arrays()), "save, load, continue is continue")
    try:
        half.predict_then_learn(np.concatenate([stream[:2], np.full_like(stream[:1], np.inf)]), labels[:3])
    except InputError:
        law(_same(resumed.learner_.arrays(), half.learner_.arrays()), "an error leaves the model as it was")
    else:
        law(False, "an infinite number is refused")


def _task() -> tuple[Array, list[Any], Array, Array, list[Any]]:
    """Two sources and unlabelled target rows, in turns; a stream with missing labels and a class of its own."""
    rng = np.random.default_rng(7)
    domain = np.tile([0, 1, -1], 30)
    codes = rng.integers(0, 3, size=90)
    X = rng.normal(size=(90, 8)) + 2 * np.eye(4, 8)[codes] + 0.5 * domain[:, None]
    later = rng.integers(0, 4, size=90)
    stream = rng.normal(size=(90, 8)) + 2 * np.eye(4, 8)[later] - 0.5
    names = np.array(["a", "b", "c", "new"])
    labels = [None if rng.random() < 0.2 else str(names[k]) for k in later]
    return X, [str(names[k]) for k in codes], domain, stream, labels


def _twin(clf: OnlineTransferClassifier) -> OnlineTransferClassifier:
    """An independent copy, by way of a model file."""
    return type(clf).from_bytes(clf.to_bytes())


def _same(a: State, b: State) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
