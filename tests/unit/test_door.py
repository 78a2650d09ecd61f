"""The door's limits: weights, numbers of sources, parts of sparse matrices, the number of classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.laws import METHODS, as_table, fitted, law, make_task, refused, seeds, verbs

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.core.arrays import check_matrix
from hedgerow.core.errors import InputError
from hedgerow.inputs import HEAVIEST, LIGHTEST, NEW_CLASSES, SOURCE_CLASSES

TASK = make_task(0, n=2)
SPARSE = make_task(0, n=2, sparse=True)


# -- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weight", [1e-310, 1e300, LIGHTEST / 2, HEAVIEST * 2, 1e12, -1.0, np.nan, np.inf]
)
def test_weights_beyond_their_range(weight):
    clf = fitted(TASK, "oddm")
    words = r"sample_weight: .* at row {}; a weight is 0 or between 1e-06 and 1e\+06: divide all weights by their mean"
    refused(clf, lambda clf: clf.learn_one(TASK.X[0], "c0", weight=weight), words.format(0))
    for learn in (
        clf.partial_fit,
        clf.predict_then_learn,
        lambda *a, sample_weight: clf.fit(*a, None, sample_weight),
    ):
        refused(
            clf,
            lambda _, learn=learn: learn(TASK.X[:2], ["c0", "c1"], sample_weight=[1, weight]),
            words.format(1),
        )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("weight", [LIGHTEST, HEAVIEST])
def test_the_largest_and_the_smallest_weight_can_be_learned(method, weight):
    clf = OnlineTransferClassifier(method).fit(
        *as_table(TASK), np.where(np.arange(63) % 2, 1.0, weight)
    )
    clf.partial_fit(TASK.X, TASK.y, sample_weight=weight)
    for x, label in zip(TASK.X, TASK.y, strict=True):
        clf.learn_one(x, label, weight=weight)
    assert np.isfinite(clf.predict_proba(TASK.X)).all()
    assert all(
        np.isfinite(array).all()
        for array in clf.learner_.arrays().values()
        if array.dtype.kind == "f"
    )


# -- sample_domain ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1e300, -1e300, 2.0**60, np.inf, np.nan, 0.5])
def test_a_number_of_a_source_that_cannot_be(number):
    clf = fitted(TASK, "oddm")
    domain = np.zeros(len(TASK.X))
    domain[7] = number
    refused(
        clf,
        lambda clf: clf.fit(TASK.X, TASK.y, domain),
        r"sample_domain: .* at row 7; give whole numbers \(>= 0",
    )
    with pytest.raises(InputError, match=r"sample_domain: .*; give whole numbers"):
        clf.fit(TASK.X, TASK.y, np.full(len(TASK.X), 2**64 - 1, dtype=np.uint64))
    clf.fit(TASK.X, TASK.y, np.full(len(TASK.X), 2**62))
    assert clf.source_names_ == [str(2**62)]


@pytest.mark.parametrize("kind", [list, lambda names: pd.Series(names, dtype="object"), np.array])
def test_sources_go_by_their_names(kind):
    n = len(TASK.X)
    names = [("lyon", "vienna", None)[i % 3] for i in range(n)]
    numbers = np.array([(0, 1, -1)[i % 3] for i in range(n)])
    named = OnlineTransferClassifier("oddm").fit(TASK.X, TASK.y, kind(names))
    assert named.source_names_ == ["lyon", "vienna"]
    by_number = OnlineTransferClassifier("oddm").fit(TASK.X, TASK.y, numbers)
    assert np.array_equal(named.predict_proba(TASK.X), by_number.predict_proba(TASK.X))
    with pytest.raises(InputError, match="row 0 is of a source"):
        named.predict(TASK.X[:1], ["lyon"])


# -- sparse matrices -------------------------------------------------------------------------------------------------


def index_too_large(X):
    X.indices[3] = 10**6


def index_just_too_large(X):
    X.indices[-1] = X.shape[1 if X.format == "csr" else 0]


def index_negative(X):
    X.indices[0] = -5


def pointer_falls(X):
    X.indptr[2] = X.indptr[-1] + 50


def pointer_negative(X):
    X.indptr[1] = -3


def pointer_does_not_start_at_0(X):
    X.indptr[0] = 1


def pointer_too_short(X):
    X.indptr = X.indptr[:-2]


def pointer_too_long(X):
    X.indptr = np.append(X.indptr, X.indptr[-1])


def pointer_beyond_the_end(X):
    X.indptr[-1] += 1000


def too_few_values(X):
    X.data = X.data[:-3]


def too_few_indices(X):
    X.indices = X.indices[:-3]


def indices_of_floats(X):
    X.indices = X.indices.astype(float)


DAMAGE = (
    index_too_large,
    index_just_too_large,
    index_negative,
    pointer_falls,
    pointer_negative,
    pointer_does_not_start_at_0,
    pointer_too_short,
    pointer_too_long,
    pointer_beyond_the_end,
    too_few_values,
    too_few_indices,
    indices_of_floats,
)


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_damaged_sparse_matrices_are_refused_before_anything_reads_them(how, form, kind):
    made = getattr(sp, f"{form}_{kind}")
    clf = fitted(SPARSE, "oddm")
    X = made(SPARSE.X).copy()
    how(X)
    words = "a damaged sparse matrix: .*; build it again"
    for use in verbs(X, SPARSE.y).values():
        refused(clf, use, words)
    refused(clf, lambda clf: clf.fit_domains([Domain("a", X, SPARSE.y)]), words)
    with pytest.raises(InputError, match=words):
        check_matrix(X, "here")
    if form == "csr" and how is pointer_falls:
        return  # one row has no pointer between its first and its last
    row = made(SPARSE.X[[np.diff(SPARSE.X.indptr).argmax()]]).copy()
    how(row)
    for use in (clf.predict_one, clf.predict_proba_one, lambda x: clf.learn_one(x, "c0")):
        refused(clf, lambda _, use=use: use(row), words)


def test_a_damaged_list_of_places():
    X = sp.coo_array(SPARSE.X).copy()  # the first shares its indices
    X.coords[1][2] = 99
    clf = fitted(SPARSE, "oddm")
    refused(
        clf,
        lambda clf: clf.predict(X),
        "a damaged sparse matrix: axis 1 index 99 exceeds matrix dimension 6",
    )


@given(seeds, st.integers(0, 2), st.integers(-100, 100))
@law(60)
def test_any_change_of_one_entry_is_read_right_or_refused(seed, part, value):
    """Whatever stands in indices and pointers: an answer equal to that of the dense rows, or an error."""
    clf = fitted(SPARSE, "homotlms", preprocess=())
    X = SPARSE.X.copy()
    array = (X.indices, X.indptr, X.indptr)[part]
    array[np.random.default_rng(seed).integers(len(array))] = value
    try:
        found = clf.predict_proba(X)
    except InputError:
        return
    parts = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    rows = np.zeros(X.shape)
    for i, (a, b) in enumerate(parts):
        np.add.at(rows[i], X.indices[a:b], X.data[a:b])
    np.testing.assert_allclose(found, clf.predict_proba(rows), atol=1e-12)


def test_room_behind_the_last_value_and_an_order_remembered_wrongly():
    clf = fitted(SPARSE, "oddm")
    expected = clf.predict_proba(SPARSE.X)
    roomy = SPARSE.X.copy()
    roomy.data, roomy.indices = (
        np.append(roomy.data, np.nan),
        np.append(roomy.indices, 0).astype(np.int32),
    )
    before = len(roomy.data)
    np.testing.assert_array_equal(clf.predict_proba(roomy), expected)
    assert len(roomy.data) == before
    turned = SPARSE.X.copy()
    assert turned.has_canonical_format  # scipy remembers this, and does not look again
    for a, b in zip(turned.indptr[:-1], turned.indptr[1:], strict=True):
        turned.data[a:b], turned.indices[a:b] = (
            turned.data[a:b][::-1].copy(),
            turned.indices[a:b][::-1].copy(),
        )
    np.testing.assert_array_equal(clf.predict_proba(turned), expected)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil", "dok"])
def test_every_sparse_format_is_read(form):
    clf = fitted(SPARSE, "oddm")
    given = SPARSE.X.asformat(form)
    np.testing.assert_array_equal(clf.predict_proba(given), clf.predict_proba(SPARSE.X))
    np.testing.assert_array_equal(Domain("a", given).X.toarray(), SPARSE.X.toarray())
    assert clf.predict_one(sp.csr_array(SPARSE.X[[0]])[0]) == clf.predict(SPARSE.X[[0]])[0]


# -- the number of classes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["pa", "oddm", "hedgerow"])
def test_a_limit_of_classes_given(method):
    clf = fitted(TASK, method, max_classes=4)
    clf.learn_one(TASK.X[0], "fourth")
    words = r"label 'fifth' would be class 5, and the limit is max_classes=4.*set_params\(max_classes=8\) allows more"
    refused(clf, lambda clf: clf.learn_one(TASK.X[0], "fifth"), words)
    refused(clf, lambda clf: clf.partial_fit(TASK.X[:3], ["c0", "fourth", "fifth"]), words)
    refused(clf, lambda clf: clf.predict_then_learn(TASK.X[:3], ["fifth", "sixth", "c0"]), words)
    clf.set_params(max_classes=8).learn_one(TASK.X[0], "fifth")
    assert clf.classes_.tolist() == ["c0", "c1", "c2", "fourth", "fifth"]
    with pytest.raises(
        InputError, match=r"3 classes \(the last is 'c2'\), and the limit is max_classes=2"
    ):
        fitted(TASK, method, max_classes=2)
    with pytest.raises(InputError, match="max_classes=2"):
        OnlineTransferClassifier(method, max_classes=2, classes=["a", "b", "c"]).fit(
            TASK.X[:2], ["a", "b"]
        )


@pytest.mark.parametrize("max_classes", [0, -1, 2.5, "many", True, np.nan])
def test_a_limit_that_is_none(max_classes):
    with pytest.raises(InputError, match=f"max_classes={max_classes!r}: must be"):
        fitted(TASK, "pa", max_classes=max_classes)


@pytest.mark.parametrize("method", ["pa", "oddm", "hedgerow"])
def test_a_column_of_row_numbers_is_refused_unasked(method, tmp_path):
    clf = fitted(TASK, method)
    X = np.repeat(TASK.X, 40, axis=0)
    numbers = [f"row {i}" for i in range(len(X))]
    words = f"label 'row {NEW_CLASSES}' would be class {NEW_CLASSES + 4}, and the limit is {NEW_CLASSES + 3}"
    refused(clf, lambda clf: clf.partial_fit(X, numbers), words)
    clf.save(tmp_path / "m")
    refused(
        clf, lambda _: OnlineTransferClassifier.load(tmp_path / "m").partial_fit(X, numbers), words
    )
    with pytest.raises(
        InputError, match=r"'row .*' would be class 1001, and the limit is 1000 without max_classes"
    ):
        OnlineTransferClassifier(method).partial_fit(X, numbers)


def test_sources_of_too_many_classes():
    n = SOURCE_CLASSES + 1
    X = np.random.default_rng(0).normal(size=(n, 1))
    words = f"{n} classes .*the limit is {SOURCE_CLASSES} without max_classes.*max_classes={n} allows them"
    with pytest.raises(InputError, match=words):
        OnlineTransferClassifier("pa").fit(X, np.arange(n))
    clf = OnlineTransferClassifier("pa", max_classes=n, preprocess=()).fit(X, np.arange(n))
    assert len(clf.classes_) == n


def test_the_limit_is_saved(tmp_path):
    fitted(TASK, "pa", max_classes=7).save(tmp_path / "m")
    assert OnlineTransferClassifier.load(tmp_path / "m").max_classes == 7
