"""Cells of many rows at once become what they become one by one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law
from support.messy import messy

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.core.values import BadCell
from hedgerow.rows import Wanted, open_rows, readers
from hedgerow.tables import Boolean, Category, Date, Hashed, Late, Number, Text

COLUMNS = [
    Number("n"), Number("n", gaps=True), Boolean("b", gaps=True), Category("c", ("Oslo", "3", "true"), gaps=True),
    Hashed("h", places=4), Date("d", 0.0, ("hour", "year")), Date("d", 0.0, (), "number"), Text("t", places=8),
    Late("l"),
]  # fmt: skip
WORDS = (
    "", " ", "1", "-2.5", " 3 ", "1e5", "1_000", "nan", "-nan", "inf", "1e999", "NA", "?", "yes", "No", "0", "Oslo",
    "true", "2024-01-31", "2024-01-31T12:00", "٣", "x y x", "Bodø",
)  # fmt: skip


@given(
    st.lists(
        st.one_of(st.sampled_from(WORDS), st.text(max_size=5), st.none()), min_size=1, max_size=12
    )
)
@law(60)
def test_a_column_of_texts_is_its_cells(cells):
    for column in COLUMNS:
        expected = []
        bad = []
        for i, cell in enumerate(cells):
            try:
                expected.append(column(cell))
            except BadCell as error:
                expected.append(column(None))
                bad.append((i, str(error)))
        column_of_cells = np.empty(len(cells), dtype=object)
        column_of_cells[:] = cells
        numbers, errors = column.encode(column_of_cells)
        np.testing.assert_array_equal(numbers, np.array(expected))
        assert [(i, str(error)) for i, error in errors.items()] == bad


def test_values_that_are_equal_but_not_alike_stay_apart():
    cells = np.array([1, True, 1.0, "1", "true"], dtype=object)
    column = Category("c", ("1", "true"))
    np.testing.assert_array_equal(column.encode(cells)[0], [column(cell) for cell in cells])


@pytest.fixture(scope="module")
def clf():
    tables = [messy(80, 0), messy(70, 1, 3.0)]
    sources = [
        Domain(f"shop {i}", t.drop(columns="bought"), t["bought"]) for i, t in enumerate(tables)
    ]
    return OnlineTransferClassifier("pa").fit_domains(sources)


def rows_of(path, clf, label="bought", id="customer_id"):
    wanted = Wanted(clf.table_.width, None, label, clf.classes_, id=id, table=clf.table_)
    with open_rows(str(path), wanted, size=100) as source:
        blocks = list(source)
    bad = [(item.line, item.reason, item.text) for block in blocks for item in block.bad]
    labels = [label for block in blocks for label in block.labels or ()]
    ids = [name for block in blocks for name in block.ids or ()]
    return (
        np.concatenate([block.X for block in blocks]),
        bad,
        labels,
        ids,
        [block.end for block in blocks],
    )


@pytest.mark.parametrize("spoiled", [False, True], ids=["good rows", "bad rows"])
def test_a_csv_is_read_in_blocks_as_it_is_line_by_line(tmp_path, monkeypatch, clf, spoiled):
    table = messy(900, 2, 6.0)
    table["note"] = [f'said "{i}", {i}' if i % 300 == 0 else f"note, {i}" for i in range(900)]
    table["age"] = table["age"].astype(object)
    if spoiled:
        table.loc[[5, 700], "age"] = "old"
        table.loc[400, "when"] = "soon"
    table.loc[600, "city"] = "Tromsø"
    table.to_csv(tmp_path / "s.csv", index=False)
    fast = rows_of(tmp_path / "s.csv", clf)
    monkeypatch.setattr(readers.CsvReader, "_parser", lambda _: None)
    careful = rows_of(tmp_path / "s.csv", clf)
    np.testing.assert_array_equal(fast[0], careful[0])
    assert fast[1:] == careful[1:]
    assert len(fast[1]) == (3 if spoiled else 0)


def test_good_blocks_are_not_read_line_by_line(tmp_path, monkeypatch, clf):
    pytest.importorskip("pyarrow")
    messy(900, 2, 6.0).to_csv(tmp_path / "s.csv", index=False)
    monkeypatch.setattr(readers.CsvReader, "_careful", None)
    assert len(rows_of(tmp_path / "s.csv", clf)[0]) == 900


def both_ways(path, clf, monkeypatch, label=None, id=None):
    """The rows read in blocks, and line by line: what makes them the same."""
    fast = rows_of(path, clf, label, id)
    monkeypatch.setattr(readers.CsvReader, "_parser", lambda _: None)
    careful = rows_of(path, clf, label, id)
    return (fast[0].tolist(), *fast[1:]), (careful[0].tolist(), *careful[1:])


@pytest.mark.parametrize("blank", ["  ", '""', '" "'])
def test_blank_lines_of_one_column_are_no_rows(tmp_path, monkeypatch, blank):
    words = ["red", "blue"] * 20
    one = OnlineTransferClassifier("pa").fit_domains(
        [Domain("a", pd.DataFrame({"c": words}), words)]
    )
    (tmp_path / "s.csv").write_text("\n".join(["c", *words, blank, *words]))
    fast, careful = both_ways(tmp_path / "s.csv", one, monkeypatch)
    assert fast == careful
    assert len(fast[0]) == 80


@pytest.mark.parametrize("column", ["note", "else", "city"])
def test_bytes_that_are_no_text_matter_only_in_columns_that_are_read(
    tmp_path, monkeypatch, clf, column
):
    """A note in another encoding costs no row, nor a column that the model does not know; a category does."""
    table = messy(60, 2).assign(**{"else": "x"})
    table.loc[30, column] = "Bod!"
    text = table.to_csv(index=False).encode().replace(b"Bod!", b"Bod\xf8")
    (tmp_path / "s.csv").write_bytes(text)
    fast, careful = both_ways(tmp_path / "s.csv", clf, monkeypatch, "bought", "customer_id")
    assert repr(fast) == repr(careful)
    expected = [(32, "column 'city' is not UTF-8 text")] if column == "city" else []
    assert [(line, reason.split(";")[0]) for line, reason, _ in fast[1]] == expected


def test_a_label_that_comes_later_is_no_row_of_gaps(tmp_path, clf):
    """Not in a block of JSON either, of which all other lines are rows."""
    rows = messy(300, 2).drop(columns="bought").to_json(orient="records", lines=True).splitlines()
    late = '{"customer_id": 7, "bought": true}'
    (tmp_path / "s.jsonl").write_text("\n".join([*rows, late, *rows]))
    wanted = Wanted(
        clf.table_.width, None, "bought", clf.classes_, id="customer_id", table=clf.table_
    )
    with open_rows(str(tmp_path / "s.jsonl"), wanted, size=1000) as source:
        blocks = list(source)
    assert [len(block.X) for block in blocks] == [300, 0, 300]
    assert [(item.line, item.id) for block in blocks for item in block.late] == [(301, "7")]
