"""Multiclass PA against river and scikit-learn: predict then learn one by one, and a whole stream in one call.

Both peers learn one against the rest; ours is the multiclass rule, which updates two classes. The work compared is what
a user asks for: predictions and learning for 10 classes of 100 features.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from speed import Row, row, side_by_side

N, M, K = 10_000, 100, 10
FEW = {"river": 1000, "scikit-learn": 200}  # the peers are timed on the first rows
REPEATS = 5


def measure() -> Iterator[Row]:
    """One by one, then in one call."""
    X, y = data()
    rows, labels = list(X), y.tolist()
    clf = ours().partial_fit(X[:K], np.arange(K))
    works = {"ours": lambda: one_by_one(copy.deepcopy(clf), rows, labels)}
    few = {"ours": N} | FEW
    works["scikit-learn"] = lambda: scikit_learn_one_by_one(X[: FEW["scikit-learn"]], y)
    dicts = [dict(enumerate(x.tolist())) for x in X[: FEW["river"]]]
    works["river"] = lambda: river_one_by_one(dicts, labels)
    times = {name: total / few[name] for name, total in side_by_side(works, REPEATS).items()}
    for peer, times_faster in (("river", 30), ("scikit-learn", 300)):
        yield row(
            f"multiclass PA one by one, {N:,} x {M}, {K} classes, against {peer}",
            f">= {times_faster} x {peer}",
            [("ratio", ">=", times_faster)],
            {"ours": times["ours"], peer: times[peer]},
            ratio=times[peer] / times["ours"],
        )
    peer = scikit_learn().partial_fit(X[:K], np.arange(K), classes=np.arange(K))
    blocks = side_by_side(
        {
            "ours, predict_then_learn": lambda: copy.deepcopy(clf).predict_then_learn(X, y),
            "scikit-learn, one partial_fit": lambda: copy.deepcopy(peer).partial_fit(X, y),
        },
        2 * REPEATS,
    )
    yield row(
        f"multiclass PA in one call, {N:,} x {M}, {K} classes",
        ">= 1.5 x scikit-learn's one partial_fit, which only learns",
        [("ratio", ">=", 1.5)],
        blocks,
        ratio=blocks["scikit-learn, one partial_fit"] / blocks["ours, predict_then_learn"],
    )


def data() -> tuple[Any, Any]:
    """Classes that overlap, so that there is something to learn in every row."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, N)
    return rng.normal(size=(K, M))[y] + 3 * rng.normal(size=(N, M)), y


def ours() -> Any:
    from hedgerow import OnlineTransferClassifier

    return OnlineTransferClassifier("pa", C=1.0, preprocess=(), classes=np.arange(K))


def one_by_one(clf: Any, rows: list[Any], labels: list[int]) -> None:
    for x, label in zip(rows, labels, strict=True):
        clf.predict_one(x)
        clf.learn_one(x, label)


def scikit_learn() -> Any:
    """PA-I, by its class or, where that is gone, by the options of SGDClassifier."""
    from sklearn.linear_model import SGDClassifier

    if "pa1" in str(SGDClassifier._parameter_constraints["learning_rate"]):
        return SGDClassifier(loss="hinge", penalty=None, learning_rate="pa1", eta0=1.0)
    from sklearn.linear_model import PassiveAggressiveClassifier

    return PassiveAggressiveClassifier(C=1.0)


def scikit_learn_one_by_one(X: Any, y: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = scikit_learn().partial_fit(X[:1], y[:1], classes=np.arange(K))
        for i in range(len(X)):
            clf.predict(X[i : i + 1])
            clf.partial_fit(X[i : i + 1], y[i : i + 1])


def river_one_by_one(rows: list[dict[int, float]], labels: list[int]) -> None:
    from river import linear_model, multiclass

    clf = multiclass.OneVsRestClassifier(linear_model.PAClassifier(C=1.0, mode=1))
    for x, label in zip(rows, labels, strict=False):
        clf.predict_one(x)
        clf.learn_one(x, label)
