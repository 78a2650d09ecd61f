"""Signals and errors in the middle of learning: a block is learned whole or not at all, and `seen_` says which.

The signals are real ones, at random moments. After each, the stream goes on at `seen_`, and the end must be that of a
model which was never interrupted.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pytest
from support.laws import (
    assert_close_state,
    assert_same_state,
    budget,
    fitted,
    make_task,
    one_by_one,
)

from hedgerow.core import linalg
from hedgerow.core.errors import HedgerowError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.heads import PassiveAggressive, StepwiseHead
from hedgerow.mix import Hedge

STREAM = 120
SENDER = """
import os, random, signal, sys, time
while True:
    time.sleep(random.uniform(0, 1e-3))
    os.kill(int(sys.argv[1]), signal.SIGINT)
"""


class Alarm(Exception):
    """What a user's own handler of SIGALRM raises: a time limit."""


def raise_alarm(number, frame):
    raise Alarm


@contextmanager
def signals(kind: str, seconds: float):
    """One signal after so many seconds, from the system's timer or from another thread."""
    if kind == "alarm":
        before = signal.signal(signal.SIGALRM, raise_alarm)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


KNOWN = float("nan")  # no label was known when the rows were predicted


def block(clf, X, y):
    clf.predict_then_learn(X, y)


def partial(clf, X, y):
    clf.partial_fit(X, y, known=KNOWN)  # the same for all that is left, as it was for the whole


def saving(clf, X, y):
    for x, label in zip(X, y, strict=True):
        clf.predict_proba_one(x)
        clf.learn_one(x, label)
        clf.to_bytes(constants=False)


def reading(clf, X, y):
    """Predicts and reads between the rows, which are learned one by one."""
    for x, label in zip(X, y, strict=True):
        clf.predict(X[:3])
        clf.explain_one(x)
        _ = clf.discrepancy_, clf.weights_
        clf.learn_one(x, label)


WAYS = {
    "block": block,
    "partial_fit": partial,
    "rows": one_by_one,
    "saving": saving,
    "reading": reading,
}


@pytest.fixture
def _no_collection():
    """An exception in a finalizer is printed and lost: keep the garbage collector out of this."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.budget
@pytest.mark.usefixtures("_no_collection")
@pytest.mark.parametrize("kind", ["interrupt", "alarm"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", ["hedgerow", "oddm", "oddm-fixed", "homotlms"])
def test_interrupted_and_resumed_is_never_interrupted(method, way, kind):
    stream = 300 if way in ("block", "partial_fit") else 80
    wanted = budget(8, 4)
    task = make_task(5, stream=stream, new_classes=2)
    assert len(set(task.y)) == 5
    clf = fitted(task, method)
    learn = WAYS[way]
    whole = deepcopy(clf)
    learn(deepcopy(clf), task.X, task.y)  # compiled before the clock runs
    began = time.perf_counter()
    learn(whole, task.X, task.y)
    took = time.perf_counter() - began
    draw = random.Random(0)
    hits = 0
    places = set()
    for _ in range(1000):  # more than enough, on a busy machine too
        if hits >= wanted:
            break
        hurried = deepcopy(clf)
        for _ in range(1000):
            done = hurried.seen_
            try:
                with signals(
                    kind, draw.uniform(0, took)
                ):  # at times long enough to get on, on a busy machine too
                    learn(hurried, task.X[done:], task.y[done:])
                    if hurried.seen_ == stream:
                        break
            except (KeyboardInterrupt, Alarm):
                hits += 1
                places.add(hurried.seen_)
        assert hurried.seen_ == stream
        assert hurried.mistakes_ == whole.mistakes_
        assert hurried.classes_.tolist() == whole.classes_.tolist()
        assert_close_state(hurried.learner_.arrays(), whole.learner_.arrays(), 1e-7)
        np.testing.assert_allclose(
            hurried.predict_proba(task.X), whole.predict_proba(task.X), atol=1e-7
        )
    assert hits >= wanted
    assert linalg.one_blas_thread._inside == 0  # every step that was cut short has left
    assert len(places) > 1 or way in ("block", "partial_fit")  # which may be one block


@pytest.mark.usefixtures("_no_collection")
@pytest.mark.parametrize("method", ["pa", "paio", "homotlms", "oddm-fixed"])
def test_a_row_that_is_learned_in_one_call_is_learned_whole(method):
    """No signal is put aside there, but for aligned spaces: after each one, the state is bit for bit that after `seen_`
    labels.
    """
    task = make_task(6, stream=200)
    clf = fitted(task, method, preprocess="unit")
    states = [clf.learner_.arrays()]
    whole = deepcopy(clf)
    for x, label in zip(task.X, task.y, strict=True):
        whole.predict_one(x)
        whole.learn_one(x, label)
        states.append(whole.learner_.arrays())
    armed = [False]  # no Event: its lock may be held when the handler runs

    def raise_if_armed(number, frame):
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, raise_if_armed)
    sender = subprocess.Popen(
        [sys.executable, "-c", SENDER, str(os.getpid())]
    )  # another thread would need the GIL
    hurried = deepcopy(clf)
    places = []
    deadline = time.monotonic() + 20
    try:
        while len(places) < 300 and time.monotonic() < deadline:
            if hurried.seen_ == len(task.y):
                hurried = deepcopy(clf)
            with suppress(KeyboardInterrupt):
                armed[0] = True
                one_by_one(hurried, task.X[hurried.seen_ :], task.y[hurried.seen_ :])
                armed[0] = False
            places.append(hurried.seen_)
            assert_same_state(hurried.learner_.arrays(), states[hurried.seen_])
    finally:
        sender.kill()
        sender.wait()
        signal.signal(signal.SIGINT, before)
    assert len(set(places)) > 20


def test_a_new_class_comes_with_its_row_or_not_at_all(monkeypatch):
    """A signal between the room for a class and its first row would leave a class that nobody has shown."""
    task = make_task(0, stream=60, new_classes=1)
    first = int(np.flatnonzero(task.y == "c3")[0])
    for method in ("hedgerow", "oddm", "pa"):
        clf = fitted(task, method).partial_fit(task.X[:first], task.y[:first])
        kind = type(clf.learner_)

        def interrupted(self, n_classes, grow=kind.grow):
            grow(self, n_classes)
            signal.raise_signal(signal.SIGINT)

        with monkeypatch.context() as patch:
            patch.setattr(kind, "grow", interrupted)
            with pytest.raises(KeyboardInterrupt):
                clf.learn_one(task.X[first], task.y[first])
        assert clf.seen_ == first + 1
        assert clf.classes_.tolist() == ["c0", "c1", "c2", "c3"]


def test_flushing_waits_for_no_signal_in_its_middle(monkeypatch):
    """Moves that were added to A and not yet forgotten would be added twice."""
    from hedgerow.spaces import LowRankRefresh

    task = make_task(0, stream=80)
    clf = fitted(task, "oddm", refresh_every=10).partial_fit(task.X[:45], task.y[:45])
    alone = deepcopy(clf)
    clf = fitted(task, "oddm", refresh_every=10).partial_fit(
        task.X[:45], task.y[:45]
    )  # a copy is flushed, this is not
    work = LowRankRefresh.add_to

    def interrupted(self, H):
        work(self, H)
        signal.raise_signal(signal.SIGINT)

    for ask in (
        lambda: clf.to_bytes(),
        lambda: clf.predict_one(task.X[50]),
        lambda: clf.discrepancy_,
    ):
        monkeypatch.setattr(LowRankRefresh, "add_to", interrupted)
        with suppress(KeyboardInterrupt):
            ask()
        monkeypatch.undo()
    np.testing.assert_allclose(clf.predict_proba(task.X), alone.predict_proba(task.X), atol=1e-12)
    for clf_ in (clf, alone):
        one_by_one(clf_, task.X[45:], task.y[45:])
    assert_close_state(clf.learner_.arrays(), alone.learner_.arrays())


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_error_inside_a_refresh_is_refused_afterwards(error, monkeypatch):
    """A refresh that was cut short leaves a model that says so, and never one that learns on."""
    from hedgerow.spaces import LowRankRefresh

    task = make_task(0, stream=120)
    clf = fitted(task, "oddm", refresh_every=10)

    def broken(self, used):
        raise error

    monkeypatch.setattr(LowRankRefresh, "_refresh", broken)
    with pytest.raises(error):
        one_by_one(clf, task.X, task.y)
    monkeypatch.undo()
    with pytest.raises(HedgerowError, match="interrupted a step"):
        one_by_one(clf, task.X[10:], task.y[10:])


# -- parts from outside -------------------------------------------------------------------------------------------


class Broken(Exception):
    """Of a part from outside."""


def at_some_label(label_count, after):
    label_count[0] += 1
    if label_count[0] == after[0]:
        raise Broken


@dataclass(frozen=True)
class FragileHead(StepwiseHead):
    calls: list
    after: list

    def step(self, W, z, y, f):
        W[y] += 0.5 * z
        at_some_label(self.calls, self.after)
        W -= 0.1 * W


@dataclass(frozen=True)
class FragilePA(PassiveAggressive):
    calls: tuple = ([0],)
    after: tuple = ([-1],)

    def block(self, W, Z, y, weight=None):
        F = super().block(W, Z, y, weight)
        at_some_label(self.calls[0], self.after[0])
        return F


@dataclass(frozen=True)
class FragileMixer(Hedge):
    calls: tuple = ([0],)
    after: tuple = ([-1],)

    def run(self, state, seen, F, y):
        mixed = super().run(state, seen, F, y)
        at_some_label(self.calls[0], self.after[0])
        return mixed


def fragile(kind):
    calls = [0]
    after = [-1]
    if kind == "head":
        return {"head": FragileHead(calls, after)}, calls, after
    if kind == "subclass":
        return {"head": FragilePA(calls=(calls,), after=(after,))}, calls, after
    return {"mixer": FragileMixer(calls=(calls,), after=(after,))}, calls, after


@pytest.mark.parametrize("way", ["block", "partial_fit", "rows"])
@pytest.mark.parametrize("kind", ["head", "subclass", "mixer"])
@pytest.mark.parametrize("method", ["oddm", "homotlms"])
def test_a_part_that_raises_leaves_the_model_as_before_that_block(method, kind, way):
    task = make_task(2, stream=STREAM, new_classes=1)
    part, calls, after = fragile(kind)
    options = {"preprocess": ("zscore", "unit"), **part}
    whole = fitted(task, method, **options)
    calls[0] = 0
    WAYS[way](whole, task.X, task.y)
    draw = random.Random(1)
    for after_calls in sorted({1, 2, calls[0], *(draw.randint(1, calls[0]) for _ in range(4))}):
        clf = fitted(task, method, **options)
        calls[0] = 0
        after[0] = after_calls
        while clf.seen_ < STREAM:
            before = clf.seen_
            done = clf.seen_
            try:
                WAYS[way](clf, task.X[done:], task.y[done:])
            except Broken:
                after[0] = -1
                assert before <= clf.seen_ < STREAM
                assert clf.mistakes_ <= clf.seen_
                known = clf.learner_.n_classes
                assert len(clf.classes_) == known
        after[0] = -1
        assert clf.mistakes_ == whole.mistakes_
        assert_close_state(clf.learner_.arrays(), whole.learner_.arrays(), 1e-8)


@pytest.mark.parametrize("kind", ["head", "subclass", "mixer"])
@pytest.mark.parametrize("method", ["oddm", "homotlms"])
def test_a_part_that_raises_at_a_new_class_leaves_no_class_behind(method, kind):
    task = make_task(2, stream=60, new_classes=1)
    first = int(np.flatnonzero(task.y == "c3")[0])
    part, calls, after = fragile(kind)
    clf, whole = (
        fitted(task, method, **part).partial_fit(task.X[:first], task.y[:first]) for _ in range(2)
    )
    for learn in (
        lambda: clf.learn_one(task.X[first], "c3"),
        lambda: block(clf, task.X[first:], task.y[first:]),
    ):
        calls[0] = 0
        after[0] = 1
        with pytest.raises(Broken):
            learn()
        after[0] = -1
        assert clf.classes_.tolist() == ["c0", "c1", "c2"]
        assert (clf.seen_, clf.learner_.n_classes) == (first, 3)
        assert_close_state(clf.learner_.arrays(), whole.learner_.arrays(), 1e-12)
    for model in (clf, whole):
        one_by_one(model, task.X[first:], task.y[first:])
    assert_close_state(clf.learner_.arrays(), whole.learner_.arrays(), 1e-9)


# -- the context itself -------------------------------------------------------------------------------------------


@pytest.fixture
def _alarm_raises():
    before = signal.signal(signal.SIGALRM, raise_alarm)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("_alarm_raises")
def test_every_signal_that_waited_is_handled():
    """The first handler raises: the others still see their signals, in the order in which these came."""
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("term"))
    try:
        for came in ((signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)):
            with pytest.raises(KeyboardInterrupt), uninterrupted():
                list(map(signal.raise_signal, came))
        assert seen == ["term", "term"]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_alarm_raises")
def test_handlers_survive_any_moment():
    """A handler that raises while the context begins or ends leaves all others in place, and working."""
    draw = random.Random(0)
    hits = 0
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        try:
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, 1e-4))
            while True:
                with uninterrupted():
                    pass
        except Alarm:
            hits += 1
        for number, error in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGALRM, Alarm)):
            with pytest.raises(error):
                signal.raise_signal(number)
            with pytest.raises(error), uninterrupted():
                signal.raise_signal(number)
    assert hits > 100
    with uninterrupted():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGALRM) is raise_alarm


def test_nested_contexts_wait_for_the_outermost():
    inner = []

    def nested():
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(signal.SIGINT)
            inner.append("went on")

    with pytest.raises(KeyboardInterrupt):
        nested()
    assert inner == ["went on"]
