"""Statistics merge: those of parts give that of all; samples are uniform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from support.laws import law

from hedgerow.core.preprocess import RunningStats, Spread
from hedgerow.core.source_rows import ClassMoments, Gram, InMemory, Part, Smallest
from hedgerow.ridge.maps import Map, Times, octaves, usual_length
from hedgerow.ridge.space import InSpace
from hedgerow.rows.partitions import Pass, Sample

K = 3
WIDTH = 5
A = np.random.default_rng(9).normal(size=(WIDTH, 4)).astype(np.float32)
STATISTICS = [
    Smallest(), Spread(), Gram(), Gram(Times(A, to_unit=True)), ClassMoments(K), ClassMoments(0),
    InSpace(Map(A=A), K), InSpace(Map(), K),
]  # fmt: skip


def part(seed: int, rows: int) -> Part:
    rng = np.random.default_rng(seed)
    return Part(rng.normal(7, 3, size=(rows, WIDTH)), rng.integers(-1, K, rows), None, (seed, 0))


def flat(found: Any) -> list[np.ndarray]:
    if isinstance(found, RunningStats):  # about another shift
        return [found.n, found.shift + found.total / found.n, found.variance]
    if hasattr(found, "__dict__"):
        return [np.asarray(value) for value in vars(found).values() if value is not None]
    return [np.asarray(found)]


def joined(parts: list[Part]) -> Part:
    return Part(
        np.concatenate([p.X for p in parts]), np.concatenate([np.asarray(p.codes) for p in parts])
    )


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda s: type(s).__name__)
@law(15)
@given(sizes=st.lists(st.integers(1, 40), min_size=2, max_size=9))
def test_parts_give_what_all_rows_give(statistic: Any, sizes: list[int]) -> None:
    parts = [part(seed, rows) for seed, rows in enumerate(sizes)]
    (found,) = Pass((statistic,)).merged([statistic.of(each)] for each in parts)
    whole = joined(parts)
    (expected,) = InMemory(whole.X, whole.codes).totals(statistic)
    for ours, theirs in zip(flat(found), flat(expected), strict=True):
        assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_merging_in_any_tree_draws_the_same_sample() -> None:
    parts = [part(seed, 50) for seed in range(7)]
    for statistic in (Sample(20, 3), Sample(4, 3, by_class=True)):
        coded = [Part(p.X, np.abs(np.asarray(p.codes)), None, p.place) for p in parts]
        found = [statistic.of(each) for each in coded]
        left = found[0]
        right = found[-1]
        for each in found[1:]:
            left = statistic.merge(left, each)
        for each in reversed(found[:-1]):
            right = statistic.merge(each, right)
        assert np.array_equal(left.X, right.X)
        assert np.array_equal(left.codes, right.codes)
        assert left.counts.sum() == 350


def test_a_sample_is_uniform_and_stands_for_all() -> None:
    hits = np.zeros(60)
    for seed in range(600):
        statistic = Sample(6, seed)
        halves = [
            Part(np.arange(30 * i, 30 * i + 30.0)[:, None], None, None, (i, 0)) for i in range(2)
        ]
        drawn = statistic.merge(*map(statistic.of, halves)).X.ravel().astype(int)
        assert len(set(drawn.tolist())) == 6
        hits[drawn] += 1
    assert 30 < hits.min() < 60 < hits.max() < 95  # 60 are expected, with a deviation of 7
    codes = np.repeat([0, 1], [90, 10])
    found = Sample(20, 0, by_class=True).of(Part(np.arange(100.0)[:, None], codes))
    assert np.bincount(found.codes).tolist() == [20, 10]
    weights = found.weights()
    assert weights is not None
    assert [weights[found.codes == k].sum() for k in (0, 1)] == [90, 10]
    assert Sample(90, 0, by_class=True).of(Part(np.arange(100.0)[:, None], codes)).weights() is None


@pytest.mark.parametrize("scale", [1e-120, 1e-5, 1.0, 3e7, 1e120])
def test_the_usual_length_is_the_median_of_all_to_a_power_of_two(scale: float) -> None:
    rows = scale * np.random.default_rng(0).normal(size=(301, 4))
    found = usual_length(octaves(rows[:100]) + octaves(rows[100:]))
    median = float(np.median(np.linalg.norm(rows / scale, axis=1))) * scale
    if 1 / 1024 < median < 1024:
        assert found == 1.0
    else:
        assert abs(np.log2(median) - np.log2(found)) <= 1
