"""Names of features are law: read by name in every door, or refused with the names that differ."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.laws import VERBS, assert_same_state, make_task, refused, state_of, verbs

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.core.domains import names_of_table, same_columns
from hedgerow.core.errors import InputError
from reproduction.tasks import pool

NAMES = ["width", "height", "depth", "weight", "age", "price"]
TURNED = NAMES[::-1]
TASK = make_task(0, n=2)
TABLES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "batch": pa.RecordBatch.from_pydict,
}


def table(kind, X, order=NAMES, names=NAMES):
    """The columns of X, called `names`, in this order."""
    return TABLES[kind]({name: X[:, names.index(name)] for name in order})


def named(method="oddm", kind="pandas", **options):
    X = np.vstack([d.X for d in TASK.sources])
    y = np.concatenate([d.y for d in TASK.sources])
    return OnlineTransferClassifier(method, **options).fit(table(kind, X), y)


# -- domains ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TABLES)
def test_a_domain_takes_the_names_of_its_table(kind):
    domain = Domain("a", table(kind, TASK.X), TASK.y)
    assert domain.feature_names == tuple(NAMES)
    np.testing.assert_array_equal(domain.X, TASK.X)
    assert domain.rows(np.arange(3)).feature_names == tuple(NAMES)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("method", ["oddm", "hedgerow", "homotlms"])
def test_domains_are_brought_into_one_order(method, kind):
    first, second = TASK.sources
    plain = OnlineTransferClassifier(method).fit_domains(TASK.sources, TASK.warmup)
    turned = OnlineTransferClassifier(method).fit_domains(
        [
            Domain("s0", table(kind, first.X), first.y),
            Domain("s1", table(kind, second.X, TURNED), second.y),
        ],
        Domain("t", TASK.warmup.X[:, ::-1], feature_names=TURNED),
    )
    assert turned.feature_names_in_.tolist() == NAMES
    assert_same_state(turned.learner_.arrays(), plain.learner_.arrays())


def test_sparse_domains_too():
    task = make_task(1, sparse=True)
    plain = OnlineTransferClassifier("oddm").fit_domains(task.sources, task.warmup)
    first, second = task.sources
    turned = Domain("s1", second.X[:, ::-1], second.y, feature_names=TURNED)
    clf = OnlineTransferClassifier("oddm").fit_domains(
        [Domain("s0", first.X, first.y, feature_names=NAMES), turned], task.warmup
    )
    assert same_columns([Domain("s0", first.X, feature_names=NAMES), turned])[
        1
    ].X.has_canonical_format
    assert_same_state(clf.learner_.arrays(), plain.learner_.arrays())


def test_other_columns_are_refused_with_both_lists_where_domains_are_put_together():
    a = Domain("shop", np.ones((2, 2)), [0, 1], feature_names=["p", "q"])
    b = Domain("web", np.ones((2, 2)), [0, 1], feature_names=["q", "r"])
    words = r"domain 'web': other features than those of domain 'shop': missing \['p'\], unexpected \['r'\]"
    for use in (same_columns, pool):
        with pytest.raises(InputError, match=words):
            use([a, b])
    wide = Domain("wide", np.ones((2, 3)), [0, 1], feature_names=["p", "q", "s"])
    with pytest.raises(InputError, match=r"'wide'.*'shop': missing none, unexpected \['s'\]"):
        same_columns([a, wide])


def test_a_domain_without_names_is_read_by_position():
    first, second = TASK.sources
    sources = [
        Domain("s0", first.X, first.y),
        Domain("s1", second.X, second.y, feature_names=NAMES),
    ]
    clf = OnlineTransferClassifier("oddm").fit_domains(sources, TASK.warmup)
    assert clf.feature_names_in_.tolist() == NAMES
    plain = OnlineTransferClassifier("oddm").fit_domains(TASK.sources, TASK.warmup)
    assert_same_state(clf.learner_.arrays(), plain.learner_.arrays())
    narrow = Domain("narrow", first.X[:, :4], first.y)
    with pytest.raises(
        InputError, match=r"domains of different width: \[\('narrow', 4\), \('s1', 6\)\]"
    ):
        OnlineTransferClassifier("oddm").fit_domains([narrow, sources[1]])


def test_names_that_cannot_be():
    X = np.ones((2, 2))
    for names, words in (
        (["a"], "domain 'd': 1 feature names for 2 columns; give one name a column"),
        (["a", "b", "c"], "3 feature names for 2 columns"),
        ([], "0 feature names for 2 columns"),
        (["a", "a"], r"more than one column of the name \['a'\]; rename"),
        (["a", 1], "a column is named 1, others have text"),
        ([1, 2], r"feature_names=\['1', '2'\]; a name is text"),
    ):
        with pytest.raises(InputError, match=words):
            Domain("d", X, feature_names=names)
    with pytest.raises(
        InputError, match=r"feature_names=\['b', 'a'\], but the table's columns are \['a', 'b'\]"
    ):
        Domain("d", pd.DataFrame(X, columns=["a", "b"]), feature_names=["b", "a"])
    for twice in (
        pd.DataFrame(X, columns=["a", "a"]),
        pa.Table.from_arrays([pa.array([1.0])] * 2, ["a", "a"]),
    ):
        with pytest.raises(InputError, match=r"more than one column of the name \['a'\]"):
            Domain("d", twice)
        with pytest.raises(InputError, match=r"X: more than one column of the name \['a'\]"):
            OnlineTransferClassifier("pa").fit(twice, [0, 1])


def test_a_pool_keeps_the_names():
    a = Domain("a", [[1.0, 2.0]], ["u"], feature_names=["p", "q"])
    b = Domain("b", [[3.0, 4.0]], ["v"], feature_names=["q", "p"])
    both = pool([a, b])
    assert both.feature_names == ("p", "q")
    assert both.X.tolist() == [[1.0, 2.0], [4.0, 3.0]]


def test_the_callers_list_of_names_is_not_kept():
    names = list(NAMES)
    domain = Domain("a", TASK.X, TASK.y, feature_names=names)
    clf = OnlineTransferClassifier("pa").fit_domains([domain])
    names[0] = "other"
    assert domain.feature_names == tuple(NAMES)
    assert clf.feature_names_in_.tolist() == NAMES


# -- one instance ----------------------------------------------------------------------------------------------------


def instances(x):
    """One instance with its columns turned, in every form that has names."""
    turned = pd.DataFrame(x[None, ::-1], columns=TURNED)
    return {
        "dict": dict(zip(TURNED, x[::-1].tolist(), strict=True)),
        "series": turned.iloc[0],
        "objects": turned.iloc[0].astype(object),
        "pandas": turned,
        "polars": pl.DataFrame(turned.to_dict("list")),
        "arrow": pa.table(turned.to_dict("list")),
    }


@pytest.mark.parametrize("form", instances(TASK.X[0]))
@pytest.mark.parametrize("method", ["oddm", "hedgerow"])
@pytest.mark.parametrize("steps", [(), None])
def test_one_instance_is_read_by_name(method, form, steps):
    by_name, by_place = (named(method, preprocess=steps) for _ in range(2))
    for x, label in zip(TASK.X[:20], TASK.y[:20], strict=True):
        given = instances(x)[form]
        assert by_name.predict_one(given) == by_place.predict_one(x)
        assert by_name.predict_proba_one(given) == by_place.predict_proba_one(x)
        by_name.learn_one(given, label)
        by_place.learn_one(x, label)
    assert_same_state(state_of(by_name), state_of(by_place))


@pytest.mark.parametrize("form", instances(TASK.X[0]))
def test_one_instance_of_other_names_is_refused_with_both_lists(form):
    clf = named()
    given = instances(TASK.X[0])[form]
    if form == "dict":
        given = {"colour" if name == "age" else name: value for name, value in given.items()}
    elif form in ("series", "objects"):
        given = given.rename({"age": "colour"})
    elif form == "arrow":
        given = given.rename_columns(
            ["colour" if name == "age" else name for name in given.column_names]
        )
    else:
        given = given.rename(
            **(
                {"columns": {"age": "colour"}}
                if form == "pandas"
                else {"mapping": {"age": "colour"}}
            )
        )
    for use in (clf.predict_one, clf.predict_proba_one, lambda x: clf.learn_one(x, "c0")):
        words = r"x: .*missing \['age'\], unexpected \['colour'\]"
        if form == "dict":
            words = r"x lacks \['age'\] and has \['colour'\], which the model does not know"
        refused(clf, lambda _, use=use, words=words: use(given), words)


def test_a_series_or_a_table_with_one_column_more_is_refused():
    clf = named()
    row = pd.Series(dict(zip(NAMES, TASK.X[0], strict=True)) | {"colour": 1.0})
    for given in (row, row.to_frame().T):
        refused(
            clf,
            lambda _, given=given: clf.predict_one(given),
            r"missing none, unexpected \['colour'\]",
        )


def test_a_name_twice_in_one_instance():
    clf = named()
    row = pd.Series(TASK.X[0], index=["width", "width", *NAMES[2:]])
    refused(clf, lambda clf: clf.predict_one(row), r"more than one column of the name \['width'\]")


def test_names_for_a_model_that_has_none_are_said_to_be_ignored():
    clf = OnlineTransferClassifier("oddm").fit(TASK.X, TASK.y)
    row = pd.Series(TASK.X[0], index=NAMES)
    with pytest.warns(
        UserWarning, match="x has feature names, but the model was fitted without feature names"
    ):
        assert clf.predict_one(row) == clf.predict_one(TASK.X[0])
    assert clf.predict_one(pd.Series(TASK.X[0])) == clf.predict_one(TASK.X[0])


@pytest.mark.parametrize("form", ["series", "pandas", "polars", "arrow"])
def test_a_first_instance_brings_the_names(form):
    clf = OnlineTransferClassifier("pa").learn_one(instances(TASK.X[0])[form], "c0")
    assert clf.feature_names_in_.tolist() == TURNED
    clf.learn_one(pd.Series(TASK.X[1], index=NAMES), "c1")
    plain = (
        OnlineTransferClassifier("pa")
        .learn_one(TASK.X[0][::-1], "c0")
        .learn_one(TASK.X[1][::-1], "c1")
    )
    assert_same_state(state_of(clf), state_of(plain))


# -- tables for a fitted model ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("verb", VERBS[1:])
def test_a_table_has_the_models_columns_in_the_models_order(kind, verb):
    for clf in (
        named(kind=kind),
        OnlineTransferClassifier("oddm").fit_domains([Domain("a", table(kind, TASK.X), TASK.y)]),
        OnlineTransferClassifier.from_bytes(named(kind=kind).to_bytes()),
    ):
        message = refused(
            clf, verbs(table(kind, TASK.X, TURNED), TASK.y)[verb], "same order as they were in fit"
        )
        assert f"Given: {TURNED}" in message
        assert f"The model's: {NAMES}" in message
        assert "X[list(model.feature_names_in_)]" in message
        X = table(kind, TASK.X, ["colour", *NAMES[1:]], ["colour", *NAMES[1:]])
        message = refused(
            clf, verbs(X, TASK.y)[verb], "should match those that were passed during fit"
        )
        assert "unseen at fit time:\n- colour\n" in message
        assert "yet now missing:\n- width\n" in message
        verbs(table(kind, TASK.X), TASK.y)[verb](clf)


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_of_any_kind_fits_one_of_another(kind):
    clf = named(kind=kind)
    assert clf.feature_names_in_.tolist() == NAMES
    expected = named().predict(table("pandas", TASK.X))
    for other in TABLES:
        np.testing.assert_array_equal(clf.predict(table(other, TASK.X)), expected)


# -- errors name the column ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_errors_name_the_column(kind, value):
    X = TASK.X.copy()
    X[3, 2] = value
    words = "at row 3, column 'depth'"
    if np.isfinite(value) or np.isinf(
        value
    ):  # a gap is filled, where a model is fitted on such a table
        with pytest.raises(InputError, match=f"domain 'a': .*{words}"):
            Domain("a", table(kind, X), TASK.y)
        with pytest.raises(InputError, match=words):
            OnlineTransferClassifier("pa").fit(table(kind, X), TASK.y)
    clf = named(kind=kind)
    for verb in VERBS[1:]:
        refused(clf, verbs(table(kind, X), TASK.y)[verb], words)
    for row in (X[3], instances(X[3])["series"], instances(X[3])["dict"]):
        refused(clf, lambda _, row=row: clf.predict_one(row), "x: .*at row 0, column 'depth'")


def test_a_model_of_numbers_names_the_gaps_of_a_table():
    X = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1.0, 2.0]})
    for given in (
        X,
        pl.DataFrame({"a": [1, None], "b": [1.0, 2.0]}),
        pa.table({"a": [1, None], "b": [1.0, 2.0]}),
    ):
        clf = OnlineTransferClassifier("pa").fit(
            pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 1.0]}), [0, 1]
        )
        refused(
            clf,
            lambda _, given=given, clf=clf: clf.predict(given),
            "X: contains NaN at row 1, column 'a'",
        )
    row = pd.Series([pd.NA, 2.0], index=["a", "b"], dtype=object)
    clf = OnlineTransferClassifier("pa").fit(
        pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 1.0]}), [0, 1]
    )
    refused(clf, lambda clf: clf.predict_one(row), "x: contains NaN at row 0, column 'a'")


def test_twenty_thousand_columns_are_matched_in_no_time():
    import time

    names = [f"f{i}" for i in range(20_000)]
    a = Domain("a", np.ones((1, 20_000)), feature_names=names)
    b = Domain("b", np.ones((1, 20_000)), feature_names=names[::-1])
    began = time.perf_counter()
    same_columns([a, b])
    assert time.perf_counter() - began < 1


def test_numbered_columns_may_have_a_number_twice():
    X = pd.concat([pd.DataFrame(np.ones((2, 2))), pd.DataFrame(np.zeros((2, 2)))], axis=1)
    for table_ in (X, X.iloc[:, :2], X.to_numpy()):
        assert names_of_table(table_, "X") is None
    np.testing.assert_array_equal(Domain("d", X).X, X.to_numpy())


def test_a_table_that_is_not_in_memory_is_refused_with_the_remedy():
    with pytest.raises(
        InputError,
        match="LazyFrame is not a table in memory; give one of pandas, polars or pyarrow",
    ):
        Domain("d", pl.LazyFrame({"a": [1.0]}))


def test_a_name_that_is_not_there_is_a_gap_unless_another_may_be_its_new_one():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(5, 1, 60), "b": rng.normal(0, 9, 60)})
    clf = OnlineTransferClassifier().fit(
        frame, np.where(frame["b"] > 0, "x", "y"), sample_domain=np.arange(60) % 2
    )
    assert clf.predict_proba_one({"b": 7.0}) == clf.predict_proba_one({"a": None, "b": 7.0})
    for row in ({"aa": 5.0, "b": 7.0}, {}):
        with pytest.raises(InputError, match=r"x lacks \['a'"):
            clf.predict_one(row)
