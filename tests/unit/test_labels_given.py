"""Labels as people hand them in: missing ones stay missing, whole numbers stay whole, what is no class is refused."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.laws import assert_same_state, make_task, refused, state_of

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.core.errors import InputError
from hedgerow.core.values import as_labels, is_missing
from hedgerow.fleet import Fleet

TASK = make_task(0, n=2)
X = TASK.X[:12]
WHOLE = [3, 1, 2] * 4
GAPS = [3, None, 2] * 4


def columns(items):
    """A column of whole numbers, some missing, as every library writes it."""
    masked = np.ma.array(
        [0 if item is None else item for item in items], mask=[item is None for item in items]
    )
    return {
        "pandas": pd.Series(items, dtype="Int64"),
        "pandas array": pd.array(items, dtype="Int64"),
        "pandas frame": pd.DataFrame({"y": pd.array(items, dtype="Int64")}),
        "pandas arrow": pd.Series(items, dtype="int64[pyarrow]"),
        "categories": pd.Series(pd.Categorical(items, categories=[1, 2, 3])),
        "polars": pl.Series(items),
        "arrow": pa.array(items),
        "chunked arrow": pa.chunked_array([items[:5], items[5:]]),
        "masked": masked,
        "list": list(items),
    }


FORMS = tuple(columns(WHOLE))


@pytest.mark.parametrize("form", FORMS)
def test_whole_numbers_stay_whole_beside_missing_ones(form):
    labels = as_labels(columns(GAPS)[form], "y")
    assert is_missing(labels).tolist() == [item is None for item in GAPS]
    assert [type(label) for label in labels[~is_missing(labels)]] == [
        int
    ] * 8 or labels.dtype.kind == "i"
    assert as_labels(columns(WHOLE)[form], "y").dtype.kind == "i"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_classes_of_whole_numbers_with_gaps(form):
    domain = np.where(np.arange(12) % 3 == 1, -1, 0)
    clf = OnlineTransferClassifier("oddm").fit(X, columns(GAPS)[form], sample_domain=domain)
    assert clf.classes_.dtype == np.int64
    assert clf.classes_.tolist() == [2, 3]
    clf.partial_fit(X, columns(GAPS)[form])
    assert clf.seen_ == 8
    clf.partial_fit(X, columns(WHOLE)[form])
    assert clf.classes_.dtype == np.int64
    assert clf.classes_.tolist() == [2, 3, 1]
    assert type(clf.predict_one(X[0])) is int
    cold = OnlineTransferClassifier("pa").partial_fit(X, columns(GAPS)[form])
    assert cold.classes_.dtype == np.int64


def test_large_whole_numbers_lose_no_digit():
    y = pd.Series([2**53 + 1, None, 2**53 + 2], dtype="Int64")
    assert OnlineTransferClassifier("pa").partial_fit(X[:3], y).classes_.tolist() == [
        2**53 + 1,
        2**53 + 2,
    ]


def test_whole_numbers_of_every_width_stay_whole():
    for dtype in (np.uint8, np.int16, np.uint64):
        clf = (
            OnlineTransferClassifier("pa").fit(X, np.array(WHOLE, dtype=dtype)).learn_one(X[0], 300)
        )
        assert clf.classes_.tolist() == [1, 2, 3, 300]
        assert clf.classes_.dtype.kind in "iu"


@pytest.mark.parametrize("bad", [1.5, np.float64(1.5), np.float32(2.5), -0.5])
def test_a_fraction_among_whole_numbers_is_refused(bad):
    clf = OnlineTransferClassifier("oddm").fit(X, WHOLE)
    words = rf"label {float(bad)} is not a whole number.*round it, or make all labels text"
    refused(clf, lambda clf: clf.learn_one(X[0], bad), words)
    refused(clf, lambda clf: clf.partial_fit(X[:2], [1, bad]), words)
    refused(clf, lambda clf: clf.predict_then_learn(X[:2], np.array([bad, 2])), words)
    objects = np.array([*WHOLE[:-1], bad], dtype=object)
    refused(clf, lambda clf: clf.fit(X, objects), words)
    sources = [Domain("a", X, WHOLE), Domain("b", X, [float(bad)] * 12)]
    with pytest.raises(ValueError, match=r"not a whole number|continuous"):
        clf.fit_domains(sources)
    clf.learn_one(X[0], 7.0)
    assert clf.classes_.dtype == np.int64
    assert clf.classes_.tolist() == [1, 2, 3, 7]


def test_sources_with_whole_numbers_in_two_types():
    clf = OnlineTransferClassifier("pa").fit_domains(
        [Domain("a", X, WHOLE), Domain("b", X, [1.0, 4.0] * 6)]
    )
    clf.partial_fit(X[:3], [2.0, True, 5])
    assert clf.classes_.tolist() == [1, 2, 3, 4, 5]
    assert clf.classes_.dtype == np.int64


def test_a_number_does_not_turn_bools_into_numbers():
    clf = OnlineTransferClassifier("pa").fit(X, [True, False] * 6)
    refused(
        clf,
        lambda clf: clf.learn_one(X[0], 2),
        "label 2 is new, but the classes so far are False and True",
    )
    assert clf.predict(X).dtype == bool


@pytest.mark.parametrize("label", [np.inf, -np.inf, np.float32("inf")])
def test_infinity_is_no_class(label):
    words = "label -?inf is not a class; for an unknown label give None or NaN"
    for y in (WHOLE, [0.5, 1.5] * 6, [float(item) for item in WHOLE]):
        clf = OnlineTransferClassifier("pa", classes=sorted(set(y)) if y[0] == 0.5 else None)
        clf.fit(X, np.array(y, dtype=object) if y[0] == 0.5 else y)
        clf.classes = None
        refused(clf, lambda _, clf=clf: clf.learn_one(X[0], label), words)
        refused(clf, lambda _, clf=clf: clf.partial_fit(X[:2], [label, label]), words)
    for y in ([*WHOLE[:-1], label], np.array([*WHOLE[:-1], label], dtype=object)):
        with pytest.raises(InputError, match=words):
            OnlineTransferClassifier("pa").fit(X, y)
        with pytest.raises(InputError, match=words):
            OnlineTransferClassifier("pa").partial_fit(X, y)
    with pytest.raises(InputError, match=words):
        OnlineTransferClassifier("pa", classes=[1.0, label]).fit(X, [1.0] * 12)


MISSING = [
    None,
    float("nan"),
    np.float32("nan"),
    pd.NA,
    pd.NaT,
    np.datetime64("NaT"),
    np.timedelta64("NaT"),
    np.ma.masked,
]


@pytest.mark.parametrize("missing", [*MISSING, Decimal("nan")], ids=repr)
@pytest.mark.parametrize("method", ["oddm", "hedgerow"])
def test_what_is_missing_is_no_class(missing, method):
    clf = OnlineTransferClassifier(method).fit(X, [str(item) for item in WHOLE])
    before = state_of(clf)
    clf.learn_one(X[0], missing).partial_fit(X[:2], [missing, missing])
    clf.predict_then_learn(X[:1], [missing])
    assert (clf.seen_, clf.mistakes_, len(clf.classes_)) == (0, 0, len(set(WHOLE)))
    if not clf.learner_.learns_unlabelled:
        assert_same_state(state_of(clf), before)
    labels = np.array([str(item) for item in WHOLE], dtype=object)
    labels[3] = missing
    with pytest.raises(InputError, match="NaN or None at row 3; a source row needs a label"):
        clf.fit(X, labels)
    with pytest.raises(InputError, match="cannot be a class"):
        OnlineTransferClassifier(method, classes=["1", missing]).fit(X, ["1"] * 12)


DATES = {
    "NumPy": np.array(["2026-01-01", "2026-01-02"] * 6, dtype="datetime64[ns]"),
    "days": np.array(["2026-01-01", "2026-01-02"] * 6, dtype="datetime64[D]"),
    "durations": np.array([1, 2] * 6, dtype="timedelta64[s]"),
    "pandas": pd.Series(pd.to_datetime(["2026-01-01", "2026-01-02"] * 6)),
    "time zone": pd.Series(pd.to_datetime(["2026-01-01", "2026-01-02"] * 6).tz_localize("UTC")),
    "Python": [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)] * 6,
    "polars": pl.Series([datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)] * 6),
}


@pytest.mark.parametrize("kind", DATES)
def test_dates_are_no_classes(kind):
    y = DATES[kind]
    words = r"label '.*' is of type .*, a date or a time; give another column, or make it text with y.astype\(str\)"
    for use in (OnlineTransferClassifier("pa").fit, OnlineTransferClassifier("pa").partial_fit):
        with pytest.raises(InputError, match=words):
            use(X, y)
    nothing = OnlineTransferClassifier("pa").fit(X, [None] * 12, sample_domain=-np.ones(12))
    refused(nothing, lambda nothing: nothing.partial_fit(X, y), words)
    text = OnlineTransferClassifier("pa").fit(X, WHOLE)
    refused(
        text,
        lambda text: text.learn_one(X[0], next(iter(y))),
        "label .* is of type|a date or a time",
    )


def test_nat_in_a_column_of_dates_is_missing():
    y = np.full(12, np.datetime64("NaT"))
    clf = OnlineTransferClassifier("pa").fit(X, WHOLE)
    assert clf.partial_fit(X, y).seen_ == 0
    assert is_missing(as_labels(pd.Series(pd.to_datetime([None, None])), "y")).all()


def test_masks_are_honoured():
    clf = OnlineTransferClassifier("oddm").fit(X, WHOLE)
    before = state_of(clf)
    clf.partial_fit(X, np.ma.array(WHOLE, mask=True))
    assert_same_state(state_of(clf), before)
    assert np.array_equal(as_labels(np.ma.array(WHOLE), "y"), WHOLE)
    masked = np.ma.array(X, mask=np.zeros(X.shape))
    np.testing.assert_array_equal(clf.predict(masked), clf.predict(X))
    assert clf.predict_one(masked[0]) == clf.predict_one(X[0])
    masked[4, 2] = np.ma.masked
    words = r"a masked value at row {}, column 2 \(1 such values in all\); drop these rows or fill the gaps"
    for use in (
        clf.predict,
        clf.predict_proba,
        lambda A: clf.partial_fit(A, WHOLE),
        lambda A: clf.fit(A, WHOLE),
    ):
        refused(clf, lambda _, use=use: use(masked), "X: " + words.format(4))
    for use in (clf.predict_one, clf.predict_proba_one, lambda x: clf.learn_one(x, 1)):
        refused(clf, lambda _, use=use: use(masked[4]), "x: " + words.format(0))
    with pytest.raises(InputError, match="domain 'a': a masked value at row 4, column 'c'"):
        Domain("a", masked, feature_names=list("abcdef"))
    with pytest.raises(InputError, match="x: a masked value at row 0, column 2"):
        OnlineTransferClassifier("pa").learn_one(masked[4], 1)
    for option in ("sample_weight", "sample_domain"):
        with pytest.raises(InputError, match=f"{option}: a masked value"):
            clf.fit(X, WHOLE, **{option: np.ma.array(np.ones(12), mask=np.arange(12) == 3)})


@pytest.mark.parametrize(("label", "reason"), [("a\0", "NUL"), ("\ud800", "UTF-8")])
def test_text_that_numpy_or_a_file_would_lose_is_refused(label, reason):
    clf = OnlineTransferClassifier("pa").fit(X, ["a", "b", "c"] * 4)
    with Fleet(clf) as fleet:
        for learn in (
            lambda: OnlineTransferClassifier("pa").fit(X, ["a", label, "b"] * 4),
            lambda: clf.partial_fit(X[:1], [label]),
            lambda: fleet.learn("key", X[:1], [label]),
        ):
            with pytest.raises(InputError, match=reason):
                learn()
