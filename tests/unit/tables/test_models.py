"""A table as it is, to a model: the same numbers wherever rows come in."""

import io
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.messy import messy

from hedgerow import METHODS, Domain, InputError, OnlineTransferClassifier
from hedgerow.data import read

A = messy(120, 0)
B = messy(100, 1, 3.0)
TARGET = messy(90, 2, 6.0)
X = TARGET.drop(columns="bought")
Y = TARGET["bought"].to_numpy()
FORMS = {
    "pandas": lambda t: t,
    "polars": pl.from_pandas,
    "arrow": lambda t: pa.Table.from_pandas(t, preserve_index=False),
}


def domains(form=FORMS["pandas"]):
    return [
        Domain(name, form(t.drop(columns="bought")), t["bought"])
        for name, t in (("a", A), ("b", B))
    ]


def fitted(method="hedgerow", form=FORMS["pandas"], warmup=30, **options):
    target = Domain("t", form(X[:warmup])) if warmup else None
    return OnlineTransferClassifier(method, **options).fit_domains(domains(form), target)


def test_the_messy_table_is_taken_at_the_first_attempt_with_every_row(tmp_path):
    A.to_csv(tmp_path / "a.csv", index=False)
    domain = read(tmp_path / "a.csv", label="bought")
    assert len(domain) == len(A)
    clf = OnlineTransferClassifier().fit_domains([domain])
    assert dict(clf.table_.rows()) == {
        "when": "date: days since the start, hour, weekday, year",
        "city": "category of 3",
        "age": "number, with gaps",
        "income": "number, with gaps",
        "vip": "boolean",
        "customer_id": "left out: id-like",
        "note": "left out: text (--column text=NAME uses its words)",
        "country": "left out: constant",
    }
    mistakes = (clf.predict_then_learn(X, Y) != Y).mean()
    assert mistakes < 0.25 < min((Y == "yes").mean(), (Y == "no").mean())


@pytest.mark.parametrize("method", sorted(METHODS))
def test_blocks_and_single_rows_and_saved_models_predict_the_same(method):
    clf = fitted(method)
    one = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    saved = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    before = clf.predict_proba(X[30:40])
    said = clf.predict_then_learn(X[30:], Y[30:])
    rows = X[30:].to_dict("records")
    np.testing.assert_allclose(
        [list(one.predict_proba_one(row).values()) for row in rows[:10]], before, atol=1e-9
    )
    singly = []
    for i, (row, label) in enumerate(zip(rows, Y[30:], strict=True)):
        singly.append(one.predict_one(row))
        one.learn_one(row if i % 2 else X.iloc[30 + i], label)
        if i == 20:
            one = OnlineTransferClassifier.from_bytes(one.to_bytes())
    assert singly == said.tolist()
    assert saved.predict_then_learn(X[30:], Y[30:]).tolist() == said.tolist()
    np.testing.assert_allclose(one.predict_proba(X[:9]), clf.predict_proba(X[:9]), atol=1e-7)


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_table_gives_the_same_model(form):
    clf = fitted(form=FORMS[form])
    plain = fitted()
    assert clf.table_ == plain.table_
    np.testing.assert_array_equal(clf.predict_proba(FORMS[form](X)), plain.predict_proba(X))


def test_fit_and_fit_domains_and_rows_of_dicts_agree():
    frame = pd.concat([A, B, TARGET[:30]], ignore_index=True)
    sd = np.repeat([0, 1, -1], [len(A), len(B), 30])
    clf = OnlineTransferClassifier().fit(
        frame.drop(columns="bought"), frame["bought"], sample_domain=sd
    )
    found = clf.predict_proba(X)
    wanted = fitted().predict_proba(X)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    np.testing.assert_array_equal(clf.predict_proba(X.to_dict("records")), found)
    np.testing.assert_array_equal(clf.predict_proba(clf.as_matrix(X)), found)  # encoded before


def test_a_column_may_be_missing_in_the_stream_and_others_may_be_there():
    clf = fitted()
    less = X.drop(columns=["age", "note"])
    gaps = X.assign(age=np.nan, more=1)
    with pytest.warns(UserWarning, match="no column 'age', a gap in every row$"):
        predictions = clf.predict_proba(less)
    np.testing.assert_array_equal(predictions, clf.predict_proba(gaps))
    with pytest.warns(
        UserWarning, match="no column 'age', .* the model does not know 'Age': was a column renamed"
    ):
        clf.predict(X.rename(columns={"age": "Age"}))
    np.testing.assert_array_equal(clf.predict_proba(X[X.columns[::-1]]), clf.predict_proba(X))
    with pytest.raises(InputError, match="none of the model's columns is there"):
        clf.predict(pd.DataFrame({"q": [1]}))
    with pytest.raises(InputError, match="X, row 1: none of the model's columns is there"):
        clf.predict([*X[:1].to_dict("records"), {"q": 1}])
    with pytest.raises(InputError, match="X, row 1, column 'age': 'old' is not a number"):
        clf.predict(X[:2].assign(age=["1", "old"]))


def test_a_renamed_key_is_said():
    clf = fitted()
    row = X[:1].to_dict("records")[0]
    renamed = {**{name: cell for name, cell in row.items() if name != "age"}, "Age": row["age"]}
    told = "no column 'age', a gap; the model does not know 'Age': was a column renamed"
    for predict in (clf.predict_one, lambda row: clf.predict([row, row])):
        with pytest.warns(UserWarning, match=told):
            predict(renamed)
        predict({name: cell for name, cell in renamed.items() if name != "Age"})  # a gap, as any
        predict({**row, "more": 1})


def test_nothing_looks_ahead():
    clf = fitted()
    other = fitted()
    later = TARGET.copy()
    later.loc[60:, ["age", "income"]] *= 100
    rest = later.drop(columns="bought")
    a = clf.explain_then_learn(X[30:], Y[30:]).probabilities[:30]
    np.testing.assert_allclose(
        other.explain_then_learn(rest[30:], Y[30:]).probabilities[:30], a, atol=1e-12
    )


def test_a_gap_is_the_mean_of_its_domain_and_behind_centre_nothing():
    clf = fitted("pa", preprocess="table+centre")
    row = clf.table_.of_mapping({"age": None, "vip": "yes"})
    at = clf.table_.feature_names.index("age")
    assert np.isnan(row[at])
    assert clf.learner_.pre.apply(np.array([row]))[0, at] == pytest.approx(0, abs=1e-12)
    before = clf.learner_.pre.all[0].stats.mean[at]
    assert before == pytest.approx(X["age"][:30].mean())
    clf.partial_fit(X[30:], Y[30:])
    assert clf.learner_.pre.all[0].stats.mean[at] == pytest.approx(X["age"].mean())


def test_tables_of_numbers_without_gaps_are_as_ever():
    numbers = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc"))
    clf = OnlineTransferClassifier().fit(numbers, np.arange(40) % 2)
    assert clf.table_ is None
    assert list(clf.feature_names_in_) == list("abc")
    asked = OnlineTransferClassifier(preprocess="table").fit(numbers, np.arange(40) % 2)
    assert asked.table_.names == ("a", "b", "c")
    of_array = OnlineTransferClassifier(preprocess="table").fit(
        numbers.to_numpy(), np.arange(40) % 2
    )
    assert of_array.table_.names == ("x0", "x1", "x2")
    less = OnlineTransferClassifier(table={"drop": "x1"}).fit(numbers.to_numpy(), np.arange(40) % 2)
    rows = numbers.to_numpy()
    np.testing.assert_array_equal(less.predict_proba(rows), less.predict_proba(rows[:, [0, 2]]))
    assert less.predict_one(rows[0]) == less.predict(rows[:1])[0]
    with pytest.raises(InputError, match="'fill' comes with a table"):
        OnlineTransferClassifier(preprocess="fill").fit(numbers, np.arange(40) % 2)


def test_a_cold_start_learns_its_table_from_the_first_rows():
    clf = OnlineTransferClassifier("pa").partial_fit(X[:40], Y[:40])
    assert "age" in clf.table_.names
    assert (clf.predict_then_learn(X[40:], Y[40:]) != Y[40:]).mean() < 0.4


def test_a_changed_table_is_refused():
    data = fitted("pa").to_bytes()
    assert json.dumps("city=Oslo").encode()[1:-1] in data
    with pytest.raises(InputError, match="damaged"):
        OnlineTransferClassifier.load(io.BytesIO(data.replace(b"city=Oslo", b"city=Rome")))


def test_a_gap_among_the_categories_of_an_arrow_table_is_a_gap():
    """A dictionary of Arrow has a code for every row; that of a null must not be taken for a value."""
    column = pa.array(["red", "blue", None, "red"] * 5).dictionary_encode()
    clf = OnlineTransferClassifier("pa").fit(pa.table({"colour": column}), [0, 1, 1, 0] * 5)
    assert clf.table_.feature_names == [
        "colour=blue",
        "colour=red",
        *(f"colour#{i}" for i in range(4)),
        "colour is missing",
    ]
    np.testing.assert_array_equal(clf.as_row({"colour": None}), [*[np.nan] * 6, 1])


@pytest.mark.parametrize("method", ["hedgerow", "hedgerow-linear", "pa"])
def test_a_category_that_only_the_stream_has_is_learned(method):
    """Each of two new values has a label of its own; without places of their own half of them would be mistaken."""
    rng = np.random.default_rng(0)

    def rows(n, values):
        table = pd.DataFrame({"kind": rng.choice(values, n), "size": rng.normal(size=n)})
        labels = table.kind.map({"a": "x", "b": "y", "new": "x", "other": "y"})
        return table, labels.where(labels.notna(), np.where(table["size"] > 0, "x", "y")).to_numpy(
            str
        )

    clf = OnlineTransferClassifier(method).fit(*rows(300, ["a", "b", "c"]))
    stream, y = rows(400, ["a", "b", "c", "new", "other"])
    mistakes = clf.predict_then_learn(stream, y) != y
    assert mistakes[stream.kind.isin(["new", "other"])].mean() < 0.05


def test_booleans_of_a_frame_are_yes_and_no():
    rng = np.random.default_rng(0)
    flag = rng.random(40) < 0.5
    table = pd.DataFrame({"flag": flag, "size": rng.normal(size=40), "city": ["Oslo", "Rome"] * 20})
    table["maybe"] = pd.array([True, None, False, True] * 10, dtype="boolean")
    for form in FORMS.values():
        clf = OnlineTransferClassifier("pa").fit(form(table), flag)
        kinds = {column.name: column.kind for column in clf.table_.used}
        assert kinds == {
            "flag": "boolean",
            "size": "number",
            "city": "category",
            "maybe": "boolean",
        }
        words = table.assign(
            flag=np.where(flag, "yes", "no"), maybe=[None if m is pd.NA else m for m in table.maybe]
        )
        np.testing.assert_array_equal(clf.predict_proba(words), clf.predict_proba(form(table)))
