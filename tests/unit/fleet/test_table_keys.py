"""Keys of a fleet of messy tables are light, and predict what models of their own would."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from support.messy import messy

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.core.errors import InputError
from hedgerow.fleet import Base, Fleet

SMALL = 20_000  # bytes: keys have to leave all the time
CITIES = ("Oslo", "Bodø", "Tromsø", None)  # one that no source has, and gaps
ROWS = 240
KEYS = 9


def sources():
    tables = [messy(80, 0), messy(70, 1, 3.0)]
    return [
        Domain(f"shop {i}", t.drop(columns="bought"), t["bought"]) for i, t in enumerate(tables)
    ]


def stream(seed=2):
    """Rows with more gaps than the sources have, and a column `points` that starts late, for some keys only."""
    rng = np.random.default_rng(seed)
    table = messy(ROWS, seed, 6.0)
    table["city"] = rng.choice(np.array(CITIES, dtype=object), ROWS)
    table["vip"] = np.where(rng.random(ROWS) < 0.2, None, table["vip"])
    keys = [f"key {i}" for i in rng.integers(0, KEYS, ROWS)]
    late = (np.arange(ROWS) > 60) & np.array([key in ("key 1", "key 2", "key 5") for key in keys])
    table["points"] = np.where(late, rng.normal(50, 9, ROWS), np.nan)
    y = table.pop("bought").to_numpy().astype(object)
    y[rng.random(ROWS) < 0.1] = None
    return table, y, keys


def fitted(method, options):
    return OnlineTransferClassifier(method, **options).fit_domains(sources())


def own_models(clf, keys):
    data = clf.to_bytes()
    return {
        key: OnlineTransferClassifier.from_bytes(data, constants=clf.constants_) for key in keys
    }


def batches(seed=0):
    return [
        slice(a, b)
        for a, b in pairwise(
            np.unique([0, *np.random.default_rng(seed).integers(0, ROWS, 7), ROWS])
        )
    ]


OPTIONS = {
    "usual": {},
    "late column": {"table": {"new": ["points"]}},
    "zscore": {"preprocess": "table+zscore"},
    "unit rows": {"preprocess": "table+zscore+unit", "table": {"new": ["points"]}},
}


@pytest.mark.parametrize("method", ["hedgerow", "hedgerow-linear"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_equal_to_models_of_their_own(method, options, tmp_path):
    table, y, keys = stream()
    clf = fitted(method, options)
    own = own_models(clf, set(keys))
    weights = np.random.default_rng(0).choice([1.0, 0.5, 2.0], ROWS)
    fleet = Fleet(clf, path=tmp_path / "fleet")
    evicted = 0
    for i, rows in enumerate(batches()):
        some = keys[rows]
        X = table[rows]
        labels = y[rows]
        w = weights[rows]
        fleet._holder.limit = SMALL
        before = fleet.predict_proba(some, X)
        for j, key in enumerate(some):
            np.testing.assert_allclose(
                before[j], own[key].predict_proba(X[j : j + 1])[0], atol=1e-9
            )
        said = fleet.predict_then_learn(some, X, labels, w)
        for key in set(some):
            at = [j for j, k in enumerate(some) if k == key]
            assert [said[j] for j in at] == own[key].predict_then_learn(
                X.iloc[at], labels[at], w[at]
            ).tolist()
        if i == 3:  # go on from disk
            evicted = fleet.stats()["evicted"]
            fleet.close()
            fleet = Fleet.open(tmp_path / "fleet")
    assert evicted
    assert fleet.stats()["evicted"]
    for key in set(keys):
        assert (fleet[key].seen_, fleet[key].mistakes_) == (own[key].seen_, own[key].mistakes_)
        np.testing.assert_allclose(
            fleet[key].predict_proba(table[:9]), own[key].predict_proba(table[:9]), atol=1e-9
        )
    fleet.close()


@pytest.mark.parametrize("which", ["usual", "late column", "unit rows"])
def test_keys_are_light(which):
    """With `zscore` alone a key with a cell 20 sd away is learned with care, on its own, as in a fleet of numbers."""
    table, y, keys = stream()
    labelled = [label or "no" for label in y]
    with Fleet(fitted("hedgerow", OPTIONS[which])) as fleet:
        fleet.learn(keys, table, labelled)
        assert (fleet.stats()["light"], fleet.stats()["own"]) == (KEYS, 0)
        fleet.learn(["key 1"], table[:1], ["perhaps"])  # a class that no source has: this key alone
        assert (fleet.stats()["light"], fleet.stats()["own"]) == (KEYS - 1, 1)


def test_a_hot_key_is_the_same_however_its_rows_are_cut():
    """Its means run on within a batch as they do between batches."""
    table, y, _ = stream()
    labelled = [label or "no" for label in y[:40]]
    with Fleet(fitted("hedgerow-linear", OPTIONS["late column"])) as one, Fleet(one.base) as other:
        table["points"] = np.where(np.arange(ROWS) % 3 == 0, np.nan, np.arange(ROWS) ** 1.5)
        one.learn(["a"] * 40, table[:40], labelled)
        for i in range(40):
            other.learn(["a"], table[i : i + 1], labelled[i : i + 1])
        assert one.stats()["light"] == other.stats()["light"] == 1
        np.testing.assert_allclose(
            one.predict_proba(["a"] * 9, table[40:49]),
            other.predict_proba(["a"] * 9, table[40:49]),
            atol=1e-10,
        )


def test_the_rows_of_a_key_are_stored_as_single_numbers_where_that_loses_nothing():
    table = pd.DataFrame(
        {"age": [30.0, None, 41.0, 52.0] * 9, "city": ["Oslo", "Bergen", None, "Oslo"] * 9}
    )
    source = Domain("a", table, ["x", "y", "x", "x"] * 9)
    with Fleet([source], "hedgerow-linear") as fleet:
        fleet.learn(["k"] * 36, table, ["x", "y", "x", "x"] * 9)
        assert fleet.base.clf.learner_.gaps
        assert len(fleet.to_bytes("k")) < 36 * (4 * fleet.base.n_features + 4) + 200


def test_a_key_of_other_words_is_refused_though_its_numbers_are_the_same():
    """Sources whose categories are called otherwise become the same numbers; rows of one are not rows of the other."""

    def base(first, second):
        table = pd.DataFrame({"colour": [first, second] * 20, "size": np.arange(40.0) % 7})
        return Base.fit([Domain("a", table, ["x", "y"] * 20)], method="hedgerow-linear")

    member = base("amber", "blue").member()
    member.learn(pd.DataFrame({"colour": ["amber"], "size": [1.0]}), ["x"])
    with pytest.raises(InputError, match="other sources"):
        base("cyan", "dun").member(member.to_bytes())


@pytest.mark.parametrize("form", ["table", "mappings"])
def test_a_bad_cell_costs_its_row_alone(form):
    """As a NaN does in a fleet of numbers; without `dead_letters` nothing is learned."""
    table, y, keys = stream()
    table = table[:30].astype(object)
    keys = ["a", "b", "c"] * 10
    labelled = np.array([label or "no" for label in y[:30]])
    spoiled = table.copy()
    spoiled.loc[4, "age"] = "old"
    spoiled.loc[17, "when"] = "soon"
    spoiled.loc[17, "age"] = "older"
    keys[21] = 1.5
    good = [i for i in range(30) if i not in (4, 17, 21)]
    given = spoiled if form == "table" else spoiled.to_dict("records")
    with Fleet(fitted("hedgerow-linear", {})) as one, Fleet(one.base) as other:
        letters = []
        said = one.predict_then_learn(
            keys, given, labelled, np.arange(1, 31) / 30, dead_letters=letters
        )
        kept = [keys[i] for i in good]
        expected = other.predict_then_learn(
            kept, table.iloc[good], labelled[good], np.arange(1, 31)[good] / 30
        )
        assert [said[i] for i in good] == expected.tolist()
        assert [said[i] for i in (4, 17, 21)] == [None] * 3
        found = {letter.row: (letter.key, letter.reason) for letter in letters}
        assert sorted(found) == [4, 17, 21]
        assert found[4][0] == "b"
        assert found[4][1].startswith("column 'age': 'old' is not a number")
        assert "'soon'" in found[17][1]
        assert "'older'" in found[17][1]
        np.testing.assert_array_equal(
            one.predict_proba(kept, table.iloc[good]), other.predict_proba(kept, table.iloc[good])
        )
        P = one.predict_proba(keys, given, dead_letters=[])
        assert np.flatnonzero(np.isnan(P[:, 0])).tolist() == [4, 17, 21]
        with pytest.raises(InputError, match=r"row 4.*'old'"):
            one.learn(keys[:20], given[:20], labelled[:20])
        assert one["b"].seen_ == other["b"].seen_


def test_every_row_bad_is_no_error_with_dead_letters():
    with Fleet(fitted("hedgerow-linear", {})) as fleet:
        letters = []
        assert fleet.predict_then_learn(
            ["a", "b"], [{"age": "x"}, {"no": 1}], ["yes", "no"], dead_letters=letters
        ).tolist() == [None, None]
        assert [letter.row for letter in letters] == [0, 1]
        assert "none of the model's columns" in letters[1].reason
