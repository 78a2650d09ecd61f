"""The check of tables before a fit: what it finds, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.core.domains import Frame
from hedgerow.findings import Bins, examine
from hedgerow.tables import Named


def tables(rows: int, leak: float, seeds: int = 3) -> list[Named]:
    """`near` is the label but for a share `leak` of the rows."""
    made = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        y = rng.random(rows) < 0.3
        near = np.where(rng.random(rows) < leak, rng.random(rows) < 0.3, y)
        columns = (near + rng.random(rows) / 2, rng.normal(size=rows))
        made.append(Named(f"s{seed}", Frame(("near", "noise"), columns), np.where(y, "a", "b")))
    return made


@pytest.mark.parametrize(("leak", "said"), [(0.0, True), (0.01, True), (0.2, False), (1.0, False)])
def test_a_column_that_gives_the_label_away_is_said_and_an_honest_one_is_not(leak, said):
    found = examine(tables(1500, leak))
    assert [each.leak for each in found.found if each.leak] == (["near"] if said else [])
    assert not any(each.stops for each in found.found)


def test_a_leak_is_one_in_every_source():
    one, two, three = tables(1500, 0.0)
    honest = tables(1500, 1.0)[2]
    assert "alone separates" in str(examine([one, two, three]))
    assert "alone separates" not in str(examine([one, two, honest]))


def test_a_number_that_is_given_away():
    rng = np.random.default_rng(0)
    made = []
    for i in range(2):
        y = rng.normal(size=600)
        columns = (3 * y + 1e-3 * rng.normal(size=600), y + rng.normal(size=600))
        made.append(Named(f"s{i}", Frame(("given", "honest"), columns), y))
    found = examine(made, numbers=True)
    assert [each.leak for each in found.found if each.leak] == ["given"]


def test_the_stability_index_is_its_formula():
    rng = np.random.default_rng(0)
    one, two, target = rng.normal(size=(3, 1000)) + np.array([[0.0], [0.1], [1.0]])
    edges = np.quantile(np.concatenate([one, two]), np.arange(1, 10) / 10, method="lower")
    shares = [
        (np.bincount(np.searchsorted(edges, x), minlength=10) + 0.5) / 1005
        for x in (one, two, target)
    ]
    pooled = (shares[0] + shares[1]) / 2
    own = sum((p - q) * np.log(p / q) for p, q in zip(pooled, shares[2], strict=True))
    between = sum((p - q) * np.log(p / q) for p, q in zip(*shares[:2], strict=True))
    bins = Bins.of([one, two])
    assert (bins.index(target), bins.between) == pytest.approx((own, between))
    assert own > 0.25 > between
