"""One model used by several threads at once: no crash, the same model, whole files.

One thread learns a stream with a new class in its middle, one predicts, one saves and reads every property. Then the
model is compared with one that learned the same labels alone, and every saved file with the same place of that stream.
"""

from __future__ import annotations

import copy
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from torture.harness import size

from bench.measure import child
from hedgerow import Domain, OnlineTransferClassifier

# What one thread predicts or saves decides whether a step finds its row predicted already, or its products dropped at a
# flush: the same numbers, added up in another order.
ROUNDING = 1e-11


@pytest.mark.parametrize("method", ["hedgerow", "hedgerow-linear", "oddm", "homotlms"])
def test_learning_predicting_and_saving_at_once(method, note):
    """In a process of its own, so that a crash fails this test alone."""
    counts, wrong = child(rounds, method, size(2.5, 60.0))
    assert wrong == []
    assert counts["rounds"] >= 1
    assert counts["predictions"] > 0
    assert counts["files"] > 0
    note(**counts)


def rounds(method, seconds):
    """So many seconds of rounds: counts, and what went wrong."""
    counts = Counter()
    wrong = []
    sources, warmup, X, y = task()
    fitted = OnlineTransferClassifier(method).fit_domains(sources, warmup)
    alone = copy.deepcopy(fitted)  # compiles all that the threads will need
    for x, label in zip(X[:60], y[:60], strict=True):
        alone.predict_proba_one(x)
        alone.learn_one(x, label)
    sys.setswitchinterval(1e-5)
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < until:
            counts["rounds"] += 1
            wrong += one_round(fitted, X, y, Path(folder) / "model", counts)
    return counts, wrong


def task(rows=160):
    """Two sources of three classes, warm-up rows, and a stream whose fourth class comes in its middle."""
    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(4, 12))

    def domain(size, classes):
        codes = rng.integers(0, classes, size=size)
        return rng.normal(size=(size, 12)) + centres[codes] + rng.normal(size=12), np.array(
            [f"c{k}" for k in codes]
        )

    sources = [Domain(f"s{i}", *domain(40, 3)) for i in range(2)]
    warmup = Domain("t", domain(20, 3)[0])
    (X, y), (late, late_y) = domain(rows // 2, 3), domain(rows - rows // 2, 4)
    return sources, warmup, np.vstack([X, late]), np.concatenate([y, late_y])


def one_round(fitted, X, y, path, counts):
    """The three threads over one stream; what they raised, and what differs afterwards."""
    clf = copy.deepcopy(fitted)
    stop = threading.Event()
    failed = []
    files = []
    rng = np.random.default_rng(0)

    def learn():
        for x, label in zip(X, y, strict=True):
            clf.learn_one(x, label)
        stop.set()

    def predict():
        x = X[rng.integers(len(X))]
        shares = clf.predict_proba_one(x)
        assert abs(sum(shares.values()) - 1) < 1e-6, shares
        assert clf.predict_one(x) in clf.classes_
        assert len(clf.predict(X[:3])) == 3
        explained = clf.explain_one(x)
        assert explained.label in explained.probabilities
        assert abs(sum(explained.weights.values()) - 1) < 1e-6, explained
        counts["predictions"] += 4

    def save():
        if len(files) % 2:
            files.append(clf.to_bytes())
        else:
            clf.save(path)
            files.append(path.read_bytes())
        assert abs(clf.weights_.array.sum() - 1) < 1e-6
        assert len(clf.discrepancy_) == 2
        assert clf.bound_ >= 0
        assert clf.mistakes_ <= clf.seen_ <= len(X)

    def until_stopped(work):
        try:
            work()
            while not stop.is_set():
                work()
        except BaseException:
            failed.append(traceback.format_exc())
            stop.set()

    threads = [
        threading.Thread(target=until_stopped, args=(work,)) for work in (learn, predict, save)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts["files"] += len(files)
    return failed + compared(fitted, X, y, clf, files)


def compared(fitted, X, y, clf, files):
    """Against a model that learns the labels alone: what differs of the model, and of each file at its place."""
    alone = copy.deepcopy(fitted)
    wrong = []
    done = 0
    at = {len(X): [clf]}
    for data in files:
        try:
            loaded = OnlineTransferClassifier.from_bytes(data)
        except Exception as error:
            wrong.append(f"does not load: {error}")
            continue
        at.setdefault(loaded.seen_, []).append(loaded)
    for seen in sorted(at):
        for x, label in zip(X[done:seen], y[done:seen], strict=True):
            alone.learn_one(x, label)
        done = seen
        wrong += [
            f"at label {seen}: {name}" for model in at[seen] for name in differences(model, alone)
        ]
    return wrong


def differences(one, other):
    """What differs by more than rounding."""
    if one.classes_.tolist() != other.classes_.tolist():
        yield f"classes {one.classes_.tolist()} and {other.classes_.tolist()}"
    if (one.seen_, one.mistakes_) != (other.seen_, other.mistakes_):
        yield f"{one.mistakes_} mistakes in {one.seen_}, {other.mistakes_} in {other.seen_}"
    a = known(one)
    b = known(other)
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b or a[name].shape != b[name].shape:
            yield f"{name}: not in both, or of another shape"
        elif a[name].dtype.kind == "f":
            scale = max(1.0, float(np.abs(b[name]).max(initial=0)))
            if not np.abs(a[name] - b[name]).max(initial=0) <= ROUNDING * scale:
                yield f"{name}: by {np.abs(a[name] - b[name]).max(initial=0):.2g}"
        elif not np.array_equal(a[name], b[name]):
            yield name


def known(clf):
    """All arrays but the priors, which a file leaves out once it has what became of them.

    Of our own learner's symmetric P only the upper triangle is kept up to date.
    """
    arrays = clf.learner_.arrays()
    half = {
        name: np.triu(array)
        for name, array in arrays.items()
        if name.startswith("space.") and name[-2:] == ".P"
    }
    return {name: array for name, array in (arrays | half).items() if "prior." not in name}
