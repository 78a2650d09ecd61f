"""One BLAS thread inside every step, whoever takes it, and the caller's own setting afterwards."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 (its BLAS is another one than NumPy's)
from support.laws import fitted, make_task
from threadpoolctl import threadpool_info, threadpool_limits

from hedgerow.core.linalg import one_blas_thread
from hedgerow.heads import StepwiseHead
from hedgerow.mix import Hedge

SEEN: list[set[int]] = []
FAIL = [False]


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True, params=[3])
def mine(request):
    """What the caller has set."""
    SEEN.clear()
    FAIL[0] = False
    with threadpool_limits(request.param, user_api="blas"):
        assert threads() == {request.param}
        yield {request.param}
        assert threads() == {request.param}, "the caller's setting is not restored"


def look() -> None:
    SEEN.append(threads())
    if FAIL[0]:
        raise ZeroDivisionError("on purpose")


@dataclass(frozen=True)
class WatchingHead(StepwiseHead):
    def step(self, W, z, y, f):
        look()
        W[y] += 0.1 * z


@dataclass(frozen=True)
class WatchingMixer(Hedge):
    def run(self, state, seen, F, y):
        look()
        return super().run(state, seen, F, y)

    def combine(self, state, seen, F):
        look()
        return super().combine(state, seen, F)


def watched(**part):
    task = make_task(0, stream=40, new_classes=1)
    clf = fitted(task, "oddm", **part)
    SEEN.clear()
    return clf, task


@pytest.mark.parametrize("part", [{"head": WatchingHead()}, {"mixer": WatchingMixer()}], ids=str)
def test_one_thread_inside_and_the_callers_outside(part, mine):
    clf, task = watched(**part)
    for learn in (
        lambda: clf.predict_then_learn(task.X[:20], task.y[:20]),
        lambda: clf.partial_fit(task.X[20:30], task.y[20:30]),
        lambda: [clf.learn_one(x, y) for x, y in zip(task.X[30:], task.y[30:], strict=True)],
    ):
        SEEN.clear()
        learn()
        assert SEEN
        assert set.union(*SEEN) == {1}
        assert threads() == mine
    SEEN.clear()
    clf.predict(task.X)
    assert all(seen == {1} for seen in SEEN)
    assert threads() == mine


@pytest.mark.parametrize("part", [{"head": WatchingHead()}, {"mixer": WatchingMixer()}], ids=str)
def test_restored_after_an_error(part, mine):
    clf, task = watched(**part)
    FAIL[0] = True
    for learn in (
        lambda: clf.learn_one(task.X[0], task.y[0]),
        lambda: clf.predict_then_learn(task.X, task.y),
    ):
        with pytest.raises(ZeroDivisionError):
            learn()
        assert threads() == mine


def test_two_models_in_two_threads(mine):
    """The second one in finds one thread already, and must not take that for the caller's setting."""
    models = [watched(head=WatchingHead()) for _ in range(2)]
    start = threading.Barrier(2)
    errors = []

    def work(clf, task):
        try:
            start.wait()
            for x, y in zip(task.X, task.y, strict=True):
                clf.learn_one(x, y)
            clf.predict(task.X)
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=model) for model in models]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors == []
    assert len(SEEN) >= 80
    assert set.union(*SEEN) == {1}
    assert threads() == mine


@pytest.mark.parametrize("method", ["hedgerow", "oddm", "homotlms"])
def test_our_own_steps_leave_the_setting_alone(method, mine):
    task = make_task(0, stream=120, new_classes=1)
    clf = fitted(task, method)
    assert threads() == mine
    for x, y in zip(task.X[:30], task.y[:30], strict=True):
        clf.predict_one(x)
        clf.learn_one(x, y)
        assert threads() == mine
    clf.predict_then_learn(task.X[70:], task.y[70:])
    clf.predict_proba(task.X)
    clf.explain_one(task.X[0])
    _ = clf.discrepancy_, clf.to_bytes()
    assert threads() == mine


def test_what_comes_before_a_step_has_one_thread_too(monkeypatch):
    """Threads that a product has woken stay busy for milliseconds, in which the step after it waits for a core."""
    from hedgerow import inputs, spaces

    class Watched(spaces.LowRankRefresh):
        def __init__(self, *args, **kwargs):
            look()
            super().__init__(*args, **kwargs)

        def add_to(self, H):
            look()
            super().add_to(H)

    def watched_check(*args, check=inputs.check_finite):
        look()
        check(*args)

    task = make_task(0, stream=60)
    clf = fitted(task, "oddm", refresh_every=10)
    monkeypatch.setattr(spaces, "LowRankRefresh", Watched)
    monkeypatch.setattr(inputs, "check_finite", watched_check)
    for use in (
        lambda: clf.learn_one(task.X[0], task.y[0]),
        lambda: clf.predict_then_learn(task.X[:25], task.y[:25]),
        lambda: clf.predict(task.X),
        lambda: clf.discrepancy_,
        lambda: clf.to_bytes(),
    ):
        SEEN.clear()
        use()
        assert SEEN
        assert set.union(*SEEN) == {1}


def test_nested_and_entered_by_many(mine):
    def enter() -> None:
        for _ in range(15):
            with one_blas_thread, one_blas_thread:
                SEEN.append(threads())

    workers = [threading.Thread(target=enter) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert set.union(*SEEN) == {1}
    assert threads() == mine


def test_results_do_not_depend_on_the_callers_setting():
    task = make_task(1, stream=60)
    found = []
    for n in (1, 2):
        with threadpool_limits(1, user_api="blas"):
            clf = fitted(task, "oddm")
        with threadpool_limits(n, user_api="blas"):
            clf.partial_fit(task.X, task.y)
            found.append(clf.predict_proba(task.X))
    np.testing.assert_array_equal(*found)
