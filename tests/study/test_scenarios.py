"""Scenarios as laws: what each one takes away is away, and the rest is as it was."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from hedgerow.core.errors import InputError
from hedgerow.study.drift import KINDS, drifting, switched
from hedgerow.study.run import Majority, wrong
from hedgerow.study.scenarios import (
    appearing_late,
    chosen_classes,
    imbalanced,
    missing_classes,
    only_in_target,
    stream_task,
)
from hedgerow.study.sources import no_sources, no_unlabelled, one_source
from hedgerow.study.studies import STUDIES, find_studies


@pytest.fixture(scope="module")
def digits():
    return stream_task("digits", "shifted")


def classes(domain) -> set[int]:
    return set(domain.y.tolist())


@pytest.mark.parametrize(("name", "point"), [(s.name, p) for s in STUDIES.values() for p in s.points])
def test_every_point_is_a_whole_stream_task(digits, name, point):
    made = STUDIES[name].points[point](digits)
    assert np.array_equal(np.sort(made.together), np.arange(sum(map(len, made.sources))))
    for order in (0, 1):
        rows = made.arrivals(order).rows
        assert len(np.unique(rows)) == len(rows) <= len(made.target)
        assert all(0 < change < len(rows) for change in made.arrivals(order).changes)
    assert not np.array_equal(made.arrivals(0).rows, made.arrivals(1).rows)
    assert made.unlabelled is None or made.unlabelled.y is None


def test_a_source_keeps_its_order_among_the_pooled_rows(digits):
    made = only_in_target(0.5)(digits)
    ends = np.cumsum([0, *map(len, made.sources)])
    for a, b in pairwise(ends):
        own = made.together[(made.together >= a) & (made.together < b)]
        assert (np.diff(own) > 0).all()


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_held_back_classes_are_in_no_source_and_stream_late(digits, share):
    held = set(chosen_classes(digits, share).tolist())
    made = appearing_late(share)(only_in_target(share)(digits))
    assert not any(classes(source) & held for source in made.sources)
    arrivals = made.arrivals(3)
    y = made.target.y[arrivals.rows]
    assert not set(y[: arrivals.changes[0]].tolist()) & held
    assert set(y.tolist()) == classes(digits.target)
    assert not classes(made.warmup) & held


def test_every_class_stays_in_some_source(digits):
    made = missing_classes(0.8)(digits)
    assert set().union(*map(classes, made.sources)) == classes(digits.target)
    assert max(len(classes(source)) for source in made.sources) < 10


def test_rare_classes_become_rare_and_do_not_vanish(digits):
    made, rare = imbalanced(0.1)(digits), set(chosen_classes(digits, 0.5).tolist())
    for label in classes(digits.target):
        before, after = ((s.target.y == label).sum() for s in (digits, made))
        assert after == (max(1, round(0.1 * before)) if label in rare else before)


def test_drift_takes_its_second_domain_from_the_sources_and_all_kinds_are_equally_long(digits):
    lengths = set()
    for kind in KINDS:
        made = drifting(kind)(digits)
        assert {source.name for source in made.sources} == {"blurred", "faded", "thin"}
        rows = made.arrivals(0).rows
        lengths.add(len(rows))
        second = rows >= len(digits.target)
        assert second.sum() == (0 if kind == "steady" else len(rows) // 2)
    assert len(lengths) == 1


@pytest.mark.parametrize("n", [1, 2, 7, 100, 101])
@pytest.mark.parametrize("kind", KINDS)
def test_the_second_domain_never_gives_more_than_half(kind, n):
    assert switched(kind, n, seed=4)[0].sum() <= -(-n // 2)


def test_an_unknown_kind_of_drift_is_named():
    with pytest.raises(InputError, match="did you mean 'abrupt'"):
        switched("abrup", 10)


def test_sources_can_be_few(digits):
    assert no_unlabelled(digits).unlabelled is None
    assert len(one_source(digits).sources) == 1
    assert no_sources(digits).sources == ()


def test_bad_sources_keep_their_rows_and_the_stream_is_the_same(digits):
    for point, scenario in STUDIES["sources"].points.items():
        made = scenario(digits)
        assert made.target is digits.target
        if "100 %" in point:
            for before, after in zip(digits.sources, made.sources, strict=True):
                assert after.X is before.X
                assert (after.y != before.y).mean() > 0.8


def test_the_majority_rule_errs_on_all_but_the_most_frequent(digits):
    assert 0.8 < wrong(Majority(), digits, 0).mean() < 1


def test_studies_are_found_by_name():
    assert [s.name for s in find_studies("all")] == list(STUDIES)
    with pytest.raises(InputError, match="did you mean 'delay'"):
        find_studies("dealy")
