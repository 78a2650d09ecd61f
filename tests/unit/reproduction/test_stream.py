"""Streams as laws: labels come when they should, once, nothing is learned before it is known, and blocks are rows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law

from hedgerow import OnlineTransferClassifier
from hedgerow.core.errors import InputError
from reproduction.stream import Labels, at_once, batches, late, missing, play
from reproduction.tasks import fit, task_of

Adaptor = Callable[[Labels], Labels]
METHODS = ("pa", "oddm", "hedgerow", "hedgerow-linear")


def plain(n: int) -> Labels:
    return at_once([i % 3 for i in range(n)])


def same(a: Labels, b: Labels) -> bool:
    return a.at.tolist() == b.at.tolist() and a.y.tolist() == b.y.tolist()


adaptors = st.lists(
    st.one_of(
        st.integers(0, 12).map(lambda d: lambda s: late(s, d)),
        st.integers(1, 9).map(lambda b: lambda s: batches(s, b)),
        st.floats(0, 1).map(lambda p: lambda s: missing(s, p, seed=1)),
    ),
    max_size=4,
)
n_rows = st.integers(0, 30)


def composed(chain: list[Adaptor], n: int) -> Labels:
    labels = plain(n)
    for adaptor in chain:
        labels = adaptor(labels)
    return labels


@given(adaptors, n_rows)
def test_whatever_is_composed_no_label_comes_early_or_after_the_stream(chain, n):
    at, y = composed(chain, n)
    assert (at >= np.arange(n)).all()
    assert (at < n).all()
    assert (np.diff(at) >= 0).all()
    assert all(label in (i % 3, None) for i, label in enumerate(y))


@given(st.integers(0, 12), n_rows)
def test_a_late_label_comes_right_after_the_arrival_it_waited_for(rounds, n):
    assert late(plain(n), rounds).at.tolist() == [min(i + rounds, n - 1) for i in range(n)]


@given(st.integers(0, 12), st.integers(1, 9), n_rows)
def test_a_batch_comes_when_its_last_label_does(rounds, size, n):
    before = late(plain(n), rounds).at
    after = batches(late(plain(n), rounds), size).at
    for start in range(0, n, size):
        whole = start + size <= n
        assert set(after[start : start + size].tolist()) == {
            int(before[start + size - 1]) if whole else n - 1
        }


@given(st.integers(0, 9), st.integers(0, 9), n_rows)
def test_delays_add_up(a, b, n):
    assert same(late(late(plain(n), a), b), late(plain(n), a + b))


@given(n_rows)
def test_nothing_late_nothing_missing_and_batches_of_one_change_nothing(n):
    assert same(late(plain(n), 0), plain(n))
    assert same(missing(plain(n), 0.0), plain(n))
    assert same(batches(plain(n), 1), plain(n))
    assert missing(plain(n), 1.0).at.tolist() == list(range(n))
    assert missing(plain(n), 1.0).y.tolist() == [None] * n


@given(st.floats(0, 1), st.floats(0, 1), n_rows)
def test_what_is_lost_at_a_low_rate_is_lost_at_a_higher_one_and_late_or_not_does_not_matter(
    p, q, n
):
    low = min(p, q)
    high = max(p, q)
    kept = [given_of(missing(plain(n), rate)) for rate in (low, high)]
    assert kept[1] <= kept[0]
    assert given_of(missing(late(plain(n), 5), low)) == kept[0]


def given_of(labels: Labels) -> set[int]:
    return {i for i, y in enumerate(labels.y) if y is not None}


class Spy:
    """A model that predicts how many labels came before, or were given up, and remembers what it was taught."""

    def __init__(self) -> None:
        self.learned: list[tuple[float, Any]] = []

    def predict(self, X):
        return [len(self.learned)] * len(X)

    def partial_fit(self, X, y, known=None):
        self.learned += [(float(x[0]), label) for x, label in zip(X, y, strict=True)]

    def predict_then_learn(self, X, y):
        out = []
        for x, label in zip(X, y, strict=True):
            out.append(len(self.learned))
            self.partial_fit(x[None], [label])
        return out


@law(200)
@given(adaptors, n_rows, st.integers(1, 7))
def test_a_prediction_uses_exactly_the_labels_that_arrived_before_its_instance(chain, n, block):
    labels = composed(chain, n)
    spy = Spy()
    X = np.arange(n, dtype=float)[:, None]
    assert play(spy, X, labels, block).tolist() == [int((labels.at < i).sum()) for i in range(n)]
    assert spy.learned == [(float(i), y) for i, y in enumerate(labels.y)]


@pytest.fixture(scope="module")
def digits():
    return task_of("digits", "shifted")


@pytest.fixture(scope="module", params=METHODS)
def fitted(request, digits):
    return fit(digits, request.param)


@pytest.mark.parametrize(
    "adaptor", [lambda s: late(s, 0), lambda s: missing(s, 0.0), lambda s: batches(s, 1)]
)
def test_without_trouble_play_is_predict_then_learn_exactly(digits, fitted, adaptor):
    X = digits.stream.X
    y = np.asarray(digits.stream.y)
    one = copy.deepcopy(fitted)
    two = copy.deepcopy(fitted)
    expected = one.predict_then_learn(X, y)
    played = play(two, X, adaptor(at_once(y)))
    np.testing.assert_array_equal(played, expected)
    arrays = two.learner_.arrays()
    for name, array in one.learner_.arrays().items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)


def test_late_labels_by_hand_and_by_adaptor_are_the_same(digits, fitted):
    X = digits.stream.X[:60]
    y = np.asarray(digits.stream.y)[:60]
    by_hand = copy.deepcopy(fitted)
    by_adaptor = copy.deepcopy(fitted)
    expected = []
    for i in range(60):
        expected.append(by_hand.predict_one(X[i]))
        if i >= 7:
            by_hand.learn_one(X[i - 7], y[i - 7])
    assert play(by_adaptor, X, late(at_once(y), 7)).tolist() == expected


def test_sparse_rows_play_too():
    import scipy.sparse as sp

    X = sp.csr_matrix(np.eye(6))
    y = np.array([0, 1, 0, 1, 0, 1])
    clf = OnlineTransferClassifier("pa", preprocess="unit").fit(X, y)
    assert None not in play(clf, X, late(at_once(y), 2)).tolist()


@pytest.mark.parametrize(
    ("adaptor", "message"),
    [
        (lambda s: late(s, -1), "rounds=-1"),
        (lambda s: batches(s, 0), "size=0"),
        (lambda s: missing(s, 1.5), "rate=1.5"),
    ],
)
def test_impossible_strengths_are_refused(adaptor, message):
    with pytest.raises(InputError, match=message):
        adaptor(plain(3))
