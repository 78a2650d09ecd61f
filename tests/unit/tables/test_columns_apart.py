"""Columns that not everyone has: what is shared transfers, what only the target has starts free."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law
from support.messy import messy

from hedgerow import METHODS, Domain, InputError, OnlineTransferClassifier

FREE = (
    "hedgerow",
    "hedgerow-linear",
    "pa",
    "paio",
    "homotl-1",
    "homotl-2",
    "homotlms",
)  # those that can learn them
NAMES = list("abcdef")


def numbers(rows, seed, names=NAMES, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, len(NAMES))) + shift
    y = np.where(X[:, 0] - X[:, 1] + X[:, 2] > shift, "up", "down")
    return pd.DataFrame(X, columns=NAMES)[list(names)], y


def fitted(sources, warmup, method="hedgerow", **options):
    domains = [Domain(f"s{i}", X, y) for i, (X, y) in enumerate(sources)]
    return OnlineTransferClassifier(method, **options).fit_domains(
        domains, None if warmup is None else Domain("t", warmup)
    )


SOURCES = [numbers(60, 0), numbers(50, 1, shift=0.5)]
TARGET, LABELS = numbers(80, 2, shift=1.0)


def with_more(X, seed):
    """A column that no source has, of numbers, and one of categories."""
    rng = np.random.default_rng(seed)
    return X.assign(extra=rng.normal(1e4, 5, len(X)), kind=rng.choice(["p", "q", "r"], len(X)))


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_column_that_no_source_has_changes_no_prediction_before_the_first_label(method):
    wide = with_more(TARGET, 3)
    clf = fitted(SOURCES, wide[:30], method)
    plain = fitted(SOURCES, TARGET[:30], method)
    assert plain.table_ is None
    np.testing.assert_allclose(clf.predict_proba(wide), plain.predict_proba(TARGET), atol=1e-10)
    if method in FREE:
        assert [column.name for column in clf.table_.own] == ["extra", "kind"]
    else:
        assert clf.table_.left_out == {"extra": "no source has it", "kind": "no source has it"}


@law(8)
@given(
    hidden=st.lists(st.sampled_from(NAMES[:5]), max_size=3, unique=True),
    seed=st.integers(0, 99),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    method=st.sampled_from(["hedgerow", "hedgerow", "hedgerow-linear", "homotlms"]),
)
def test_laws_of_own_and_absent_columns(hidden, seed, scale, method):
    wide = TARGET.assign(extra=scale * np.random.default_rng(seed).normal(size=len(TARGET)))
    first = (SOURCES[0][0].drop(columns=hidden), SOURCES[0][1])
    clf = fitted([first, SOURCES[1]], wide[:30], method)
    without = fitted([first, SOURCES[1]], TARGET[:30], method)
    np.testing.assert_allclose(clf.predict_proba(wide), without.predict_proba(TARGET), atol=1e-10)
    absent = fitted([first, SOURCES[1]], TARGET[:30].drop(columns="f"), method)
    left = [(X.drop(columns="f", errors="ignore"), y) for X, y in (first, SOURCES[1])]
    cut = fitted(left, TARGET[:30].drop(columns="f"), method)
    rows = TARGET[30:].drop(columns="f")
    a, b = (each.explain_then_learn(rows, LABELS[30:]).probabilities for each in (absent, cut))
    np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("method", FREE)
def test_a_column_that_only_the_target_has_is_learned(method):
    rng = np.random.default_rng(5)
    rows = 150
    X = pd.DataFrame(rng.normal(size=(rows, 6)), columns=NAMES).assign(
        own=rng.normal(size=rows) * 7 + 100
    )
    y = np.where(X["own"] > 100, "up", "down")
    clf = fitted(SOURCES, X[:20], method)
    cut = fitted(SOURCES, X[:20][NAMES], method)
    wrong = (clf.predict_then_learn(X[20:], y[20:]) != y[20:])[40:].mean()
    without = (cut.predict_then_learn(X[20:][NAMES], y[20:]) != y[20:])[40:].mean()
    assert wrong < 0.25 < without


@pytest.mark.parametrize("method", ["hedgerow", "hedgerow-linear", "homotlms"])
def test_blocks_rows_and_files_agree_where_columns_come_and_go(method):
    X = with_more(TARGET, 4)
    X.loc[30:50, "extra"] = np.nan  # it stops
    X.loc[:45, "kind"] = None  # it begins
    clf = fitted(SOURCES, X[:30].assign(kind=None), method, table={"new": ["kind"]})
    one = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    said = clf.explain_then_learn(X[30:], LABELS[30:])
    shares = []
    for i, (row, label) in enumerate(zip(X[30:].to_dict("records"), LABELS[30:], strict=True)):
        if i % 3 == 0:
            row = {name: cell for name, cell in row.items() if cell is not None and cell == cell}
        shares.append(list(one.predict_proba_one(row).values()))
        one.learn_one(row, label)
        if i == 25:
            one = OnlineTransferClassifier.from_bytes(one.to_bytes())
    np.testing.assert_allclose(shares, said.probabilities, atol=1e-8)


def test_a_column_that_is_announced_is_learned_when_it_comes():
    rng = np.random.default_rng(6)
    X = pd.DataFrame(rng.normal(size=(200, 6)), columns=NAMES)
    late = rng.normal(size=200)
    y = np.where(late > 0, "up", "down")
    rows = X.assign(late=np.where(np.arange(200) < 60, np.nan, late))
    clf = fitted(SOURCES, X[:20], table={"new": "late"})
    wrong = clf.predict_then_learn(rows[20:], y[20:]) != y[20:]
    assert wrong[:40].mean() > 0.3
    assert wrong[100:].mean() < 0.2


def test_columns_that_some_sources_lack_are_named_and_filled():
    a = messy(60, 0)
    b = messy(60, 1)
    domains = [Domain("a", a.drop(columns=["bought", "age"]), a["bought"])]
    domains += [Domain("b", b.drop(columns=["bought", "city"]), b["bought"])]
    target = messy(80, 2)
    clf = OnlineTransferClassifier().fit_domains(
        domains, Domain("t", target.drop(columns="bought")[:30])
    )
    assert clf.table_.lacking == {"city": ("b",), "age": ("a",)}
    assert not clf.table_.own
    y = target["bought"].to_numpy()[30:]
    assert (clf.predict_then_learn(target.drop(columns="bought")[30:], y) != y).mean() < 0.3


def test_nothing_in_common_is_refused():
    with pytest.raises(InputError, match="no column is both in a source and in the target"):
        fitted([(SOURCES[0][0][["a", "b"]], SOURCES[0][1])], TARGET[["c", "d"]])
