"""What the property tests share: a stable hypothesis profile and small tasks made from a seed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st

from hedgerow import Domain, InputError, OnlineTransferClassifier
from reproduction.tasks import classifier as experiment_classifier

METHODS = (
    "hedgerow",
    "hedgerow-linear",
    "pa",
    "paio",
    "homotl-1",
    "homotl-2",
    "homotlms",
    "oddm-fixed",
    "oddm",
)
PAPER = METHODS[2:]  # the learner of experts
STEPS = ("row-minmax", "unit", "signed-sqrt", "zscore", "centre")

seeds = st.integers(0, 2**32 - 1)


def budget(examples: int, least: int = 5) -> int:
    """That many examples, or the share of them that there is time for: see the profiles in conftest.py."""
    return max(examples * settings.default.max_examples // 100, min(least, examples))


def law(examples: int = 25) -> settings:
    return settings(max_examples=budget(examples))


class Task(NamedTuple):
    sources: list[Domain]
    warmup: Domain | None
    X: Any
    y: np.ndarray


def make_task(
    seed: int,
    n: int = 2,
    K: int = 3,
    m: int = 6,
    rows: int = 24,
    warmup: int = 15,
    stream: int = 50,
    dtype: str = "float64",
    sparse: bool = False,
    missing: float = 0.0,
    new_classes: int = 0,
) -> Task:
    """Gaussian classes, every domain shifted; labels are text, the stream's may be missing or of new classes."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(K + new_classes, m))

    def domain(size: int, classes: int) -> tuple[Any, np.ndarray]:
        codes = rng.integers(0, classes, size=size)
        X = rng.normal(size=(size, m)) + centres[codes] + rng.normal(size=m)
        X = np.where(rng.random(X.shape) < 0.4, 0, X) if sparse else X
        X = X.astype(dtype)
        return sp.csr_array(X) if sparse else X, np.array([f"c{k}" for k in codes])

    sources = [Domain(f"s{i}", *domain(rows, K)) for i in range(n)]
    unlabelled = Domain("t", domain(warmup, K)[0]) if warmup else None
    X, y = domain(stream, K + new_classes)
    labels = y.astype(object)
    labels[rng.random(stream) < missing] = None
    return Task(sources, unlabelled, X, labels)


def classifier(
    method: str = "hedgerow", reading: str = "general", **options: Any
) -> OnlineTransferClassifier:
    """With answers of the reading among the options; each method gets those that it reads, None is not given."""
    return experiment_classifier(
        method, reading, **{k: v for k, v in options.items() if v is not None}
    )


def fitted(task: Task, method: str, **options: Any) -> OnlineTransferClassifier:
    return classifier(method, **options).fit_domains(task.sources, task.warmup)


def projections(clf: OnlineTransferClassifier) -> np.ndarray:
    """All A_i as they are now (n x m x d)."""
    learner = clf.learner_
    return np.stack([learner.projection(i) for i in range(learner.plan.spaces)])


def state_of(clf: OnlineTransferClassifier) -> dict[str, np.ndarray]:
    return clf.learner_.arrays()


def assert_same_state(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    """Bit for bit."""
    assert a.keys() == b.keys()
    for name, array in a.items():
        assert array.dtype == b[name].dtype, name
        np.testing.assert_array_equal(array, b[name], err_msg=name)


def assert_close_state(
    a: dict[str, np.ndarray], b: dict[str, np.ndarray], tolerance: float = 1e-9
) -> None:
    assert a.keys() == b.keys()
    for name, array in a.items():
        assert array.dtype == b[name].dtype, name
        np.testing.assert_allclose(array, b[name], rtol=tolerance, atol=tolerance, err_msg=name)


def one_by_one(clf: Any, X: Any, y: Any, weight: Any = None) -> np.ndarray:
    """What is predicted for each row before its label is learned."""
    predictions = []
    for i, label in enumerate(y):
        x = X[[i]] if sp.issparse(X) else X[i]
        predictions.append(clf.predict_one(x))
        clf.learn_one(x, label, weight=1.0 if weight is None else weight[i])
    return np.array(predictions)


def as_table(task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels and domains of the sources and the warm-up rows, as `fit` takes them."""
    X = np.vstack([*(source.X for source in task.sources), task.warmup.X])
    y = np.concatenate([*(source.y for source in task.sources), ["?"] * len(task.warmup)])
    numbers = [*range(len(task.sources)), -1]
    return X, y, np.repeat(numbers, [*map(len, task.sources), len(task.warmup)])


def as_dense(task: Task) -> Task:
    """The task with its sparse rows written out."""
    sources = [Domain(source.name, source.X.toarray(), source.y) for source in task.sources]
    return task._replace(
        sources=sources, warmup=Domain("t", task.warmup.X.toarray()), X=task.X.toarray()
    )


def refused(clf: Any, action: Any, words: str, kind: type[Exception] = InputError) -> str:
    """The error, which has these words; the model is what it was, bit for bit."""
    state = state_of(clf)
    classes = clf.classes_.tolist()
    before = dict(vars(clf))
    with pytest.raises(kind, match=words) as error:
        action(clf)
    after = vars(clf)
    assert after.keys() == before.keys()
    assert all(after[name] is value for name, value in before.items())
    assert clf.classes_.tolist() == classes
    assert_same_state(state_of(clf), state)
    return str(error.value)


def verbs(X: Any, y: Any) -> dict[str, Any]:
    """Every way to give rows to a model."""
    return {
        "fit": lambda clf: clf.fit(X, y),
        "partial_fit": lambda clf: clf.partial_fit(X, y),
        "predict_then_learn": lambda clf: clf.predict_then_learn(X, y),
        "predict": lambda clf: clf.predict(X),
        "predict_proba": lambda clf: clf.predict_proba(X),
        "decision_function": lambda clf: clf.decision_function(X),
    }


VERBS = tuple(verbs(None, None))
