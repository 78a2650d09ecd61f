"""Small fitted models, and streams to feed them."""

from __future__ import annotations

import shutil

import numpy as np

from hedgerow import OnlineTransferClassifier
from hedgerow.live import LiveModel


def make_rows(seed, n=150, m=6, K=3, shift=0.0):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(K, m)) * 2
    y = rng.integers(0, K, n)
    return centres[y] + rng.normal(size=(n, m)) + shift, y


def make_model(method="oddm", seed=0, **options):
    (A, a), (B, b), (U, _) = (
        make_rows(seed + 1, 60),
        make_rows(seed + 2, 60, shift=0.5),
        make_rows(seed + 3, 40, shift=1.0),
    )
    X = np.concatenate([A, B, U])
    y = np.r_[a, b, np.zeros(40, int)]
    domain = np.repeat([0, 1, -1], [60, 60, 40])
    return OnlineTransferClassifier(method, **options).fit(X, y, sample_domain=domain)


def state_of(clf):
    """Everything that a model knows, to the last bit; the model is left as it is."""
    return clf.learner_.arrays() | {"classes": np.asarray(clf.classes_)}


def assert_same_model(one, other):
    first = state_of(one)
    second = state_of(other)
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


def reopened(live, where):
    """The folder as it is on disk now, opened as after a crash."""
    live._snapshots.wait()
    shutil.copytree(live.folder, where, ignore=shutil.ignore_patterns("lock", "*-shm"))
    return LiveModel.open(where)
