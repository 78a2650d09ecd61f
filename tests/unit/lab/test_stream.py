"""Streams as laws: labels come when they should, once, nothing is learned before it is known, and blocks are rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law

from hedgerow import OnlineTransferClassifier
from hedgerow.core.errors import InputError
from hedgerow.lab.stream import (
    Arrival,
    Block,
    Event,
    Label,
    batches,
    cut,
    evenly,
    events,
    late,
    missing,
    play,
    run,
)
from hedgerow.lab.tasks import fit, task_of

Adaptor = Callable[[Iterable[Event]], Iterator[Event]]
METHODS = ("pa", "oddm", "hedgerow", "hedgerow-linear")


def pairs(n: int) -> Iterator[tuple[np.ndarray, int]]:
    return ((np.array([float(i)]), i % 3) for i in range(n))


def places(stream: Iterable[Event]) -> list[tuple[str, int]]:
    return [(type(event).__name__, event.i) for event in stream]


adaptors = st.lists(
    st.one_of(
        st.integers(0, 12).map(lambda d: lambda s: late(s, d)),
        st.integers(1, 9).map(lambda b: lambda s: batches(s, b)),
        st.floats(0, 1).map(lambda p: lambda s: missing(s, p, seed=1)),
    ),
    max_size=4,
)
n_rows = st.integers(0, 30)


def composed(chain: list[Adaptor], n: int) -> list[Event]:
    stream: Iterator[Event] = events(pairs(n))
    for adaptor in chain:
        stream = adaptor(stream)
    return list(stream)


@given(adaptors, n_rows)
def test_whatever_is_composed_instances_stay_in_order_and_no_label_comes_early_or_twice(chain, n):
    stream = composed(chain, n)
    assert [e.i for e in stream if isinstance(e, Arrival)] == list(range(n))
    arrived: set[int] = set()
    labelled: set[int] = set()
    for event in stream:
        if isinstance(event, Arrival):
            arrived.add(event.i)
        else:
            assert event.i in arrived
            assert event.i not in labelled
            assert event.y in (event.i % 3, None)
            labelled.add(event.i)


@given(st.integers(0, 40), st.integers(1, 9), n_rows)
def test_late_and_batched_labels_all_arrive(rounds, size, n):
    stream = list(batches(late(events(pairs(n)), rounds), size))
    assert sorted(e.i for e in stream if isinstance(e, Label)) == list(range(n))


@given(st.integers(0, 12), n_rows)
def test_a_late_label_comes_right_after_the_arrival_it_waited_for(rounds, n):
    stream = list(late(events(pairs(n)), rounds))
    for place, event in enumerate(stream):
        if isinstance(event, Label) and event.i + rounds < n:
            assert stream[place - 1].i == event.i + rounds
            assert isinstance(stream[place - 1], Arrival)


@given(st.integers(0, 9), st.integers(0, 9), n_rows)
def test_delays_add_up(a, b, n):
    assert places(late(late(events(pairs(n)), a), b)) == places(late(events(pairs(n)), a + b))


@given(n_rows)
def test_nothing_late_nothing_missing_and_batches_of_one_change_nothing(n):
    plain = places(events(pairs(n)))
    assert places(late(events(pairs(n)), 0)) == plain
    assert places(missing(events(pairs(n)), 0.0)) == plain
    assert places(batches(events(pairs(n)), 1)) == plain
    assert places(missing(events(pairs(n)), 1.0)) == plain
    assert not any(isinstance(e, Label) and e.y is not None for e in missing(events(pairs(n)), 1.0))


@given(st.floats(0, 1), st.floats(0, 1), n_rows)
def test_what_is_lost_at_a_low_rate_is_lost_at_a_higher_one_and_late_or_not_does_not_matter(p, q, n):
    low, high = min(p, q), max(p, q)
    kept = [given_of(missing(events(pairs(n)), rate)) for rate in (low, high)]
    assert kept[1] <= kept[0]
    assert given_of(missing(late(events(pairs(n)), 5), low)) == kept[0]


def given_of(stream) -> set[int]:
    return {e.i for e in stream if isinstance(e, Label) and e.y is not None}


class Spy:
    """A model that predicts how many labels came before, or were given up, and remembers what it was taught."""

    def __init__(self) -> None:
        self.learned: list[tuple[float, Any]] = []

    def predict(self, X):
        return [len(self.learned)] * len(X)

    def partial_fit(self, X, y):
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
    stream = composed(chain, n)
    before, count = {}, 0
    for event in stream:
        if isinstance(event, Arrival):
            before[event.i] = count
        else:
            count += 1
    spy = Spy()
    assert dict(play(spy, stream, block)) == before
    assert spy.learned == [(float(e.i), e.y) for e in stream if isinstance(e, Label)]


@pytest.fixture(scope="module")
def digits():
    return task_of("digits", "shifted")


@pytest.fixture(scope="module", params=METHODS)
def fitted(request, digits):
    return fit(digits, request.param)


@pytest.mark.parametrize("adaptor", [lambda s: late(s, 0), lambda s: missing(s, 0.0), lambda s: batches(s, 1)])
def test_without_trouble_play_is_predict_then_learn_exactly(digits, fitted, adaptor):
    X, y = digits.stream.X, np.asarray(digits.stream.y)
    one, two = copy.deepcopy(fitted), copy.deepcopy(fitted)
    expected = one.predict_then_learn(X, y)
    played = [prediction for _, prediction in play(two, adaptor(events(zip(X, y, strict=True))))]
    np.testing.assert_array_equal(played, expected)
    arrays = two.learner_.arrays()
    for name, array in one.learner_.arrays().items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)


def test_late_labels_by_hand_and_by_adaptor_are_the_same(digits, fitted):
    X, y = digits.stream.X[:60], np.asarray(digits.stream.y)[:60]
    by_hand, by_adaptor = copy.deepcopy(fitted), copy.deepcopy(fitted)
    expected = []
    for i in range(60):
        expected.append(by_hand.predict_one(X[i]))
        if i >= 7:
            by_hand.learn_one(X[i - 7], y[i - 7])
    assert [p for _, p in play(by_adaptor, late(events(zip(X, y, strict=True)), 7))] == expected


def test_sparse_rows_play_too():
    import scipy.sparse as sp

    X, y = sp.csr_matrix(np.eye(6)), np.array([0, 1, 0, 1, 0, 1])
    clf = OnlineTransferClassifier("pa", preprocess="unit").fit(X, y)
    rows = [X[i] for i in range(6)]
    assert len(list(play(clf, late(events(zip(rows, y, strict=True)), 2)))) == 6


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
        list(adaptor(events(pairs(3))))


# -- labels at once, and checkpoints ----------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 7, 60])
def test_checkpoints_change_nothing(digits, fitted, step):
    X, y = digits.stream.X[:60], np.asarray(digits.stream.y)[:60]
    expected = copy.deepcopy(fitted).predict_then_learn(X, y)
    clf, ends, mistakes = copy.deepcopy(fitted), [*range(step, 60, step), 60], []
    played = []
    for block, predictions, _ in run(clf, cut(X, y, ends)):
        played += predictions.tolist()
        mistakes.append((block.numbers[-1] + 1, clf.mistakes_))
    assert played == expected.tolist()
    assert mistakes == [(end, int((expected != y)[:end].sum())) for end in ends]


def test_missing_labels_are_predicted_and_not_learned(digits, fitted):
    clf, y = copy.deepcopy(fitted), np.asarray(digits.stream.y)[:40].astype(object)
    y[::2] = None
    [(_, predictions, _)] = run(clf, cut(digits.stream.X[:40], y, [40]))
    assert (len(predictions), clf.seen_) == (40, 20)
    assert clf.mistakes_ == (predictions != y)[1::2].sum()


@given(st.integers(0, 500), st.integers(1, 60))
def test_checkpoints_are_spread_evenly_up_to_the_end(n, count):
    places = evenly(n, count)
    assert len(places) == min(n, count)
    assert places[-1:] == ([n] if n else [])
    steps = np.diff([0, *places])
    assert not len(steps) or steps.max() - steps.min() <= 1
    assert list(run(Spy(), cut(np.zeros((0, 1)), [], evenly(0)))) == []


def test_a_block_without_labels_is_predicted_and_a_late_one_is_only_learned(digits, fitted):
    X, y = digits.stream.X[:20], np.asarray(digits.stream.y)[:20]
    clf, late_ = copy.deepcopy(fitted), copy.deepcopy(fitted)
    (_, first, before), (_, second, after) = run(late_, [Block(range(20), X), Block(range(20), X, y, arriving=False)])
    assert first.tolist() == clf.predict(X).tolist()
    assert second is None
    assert 0 < before < after
    assert late_.predict(X).tolist() == clf.partial_fit(X, y).predict(X).tolist()
