"""One rule for what a number is and one for what a date is, whichever reader meets it."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from support.row_inputs import blocks

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.core.errors import InputError
from hedgerow.core.values import DAY_FIRST, MONTH_FIRST, as_float, as_whole, moment
from hedgerow.data import read
from hedgerow.rows import Wanted
from hedgerow.rows.domains import order_in_time

NO_NUMBERS = ["1_000", "\u0661\u0662", "\uff11", "1,000", "0x10", "x", ""]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_no_reader_takes_for_a_number_what_is_none(tmp_path, text):
    assert as_float(text) is None
    assert as_whole(text) is None
    wanted = Wanted(1, ["a"], "y", [0, 1])
    rows = [("2", "0"), (text, "0"), ("3", "0")] * 20
    quoted = "".join(f'"{a}",{y}\n' for a, y in rows)
    (tmp_path / "t.csv").write_text("a,y\n" + quoted)
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"a": a, "y": y}) + "\n" for a, y in rows))
    for name in ("t.csv", "t.jsonl"):
        found = blocks(tmp_path / name, wanted)
        assert [len(block[5]) for block in found] == [20]
        assert [len(block[0]) for block in found] == [40]
    parquet.write_table(
        pa.table({"a": [a for a, _ in rows], "y": [y for _, y in rows]}), tmp_path / "t.parquet"
    )
    for name in ("t.csv", "t.jsonl", "t.parquet"):  # as a source: a column that is not all numbers
        column = read(tmp_path / name, label="y").X.column("a")
        assert column.dtype == object or text == "", name  # an empty cell is a gap among numbers


@pytest.mark.parametrize("label", ["1_0", "\u0661"])
def test_a_label_that_is_no_number_stays_text(tmp_path, label):
    (tmp_path / "t.csv").write_text(f"a,y\n1,{label}\n2,2\n")
    assert read(tmp_path / "t.csv", label="y").y.tolist() == [label, "2"]
    [block] = blocks(tmp_path / "t.csv", Wanted(1, ["a"], "y", [2, 10]))
    assert [bad.reason for bad in block[5]] == [
        f"label {label!r} is not a number, as the model's labels are"
    ]


def test_white_space_of_any_kind_may_stand_around_a_number():
    assert [as_float(text) for text in (" 1", "1\u00a0", "\t1\n")] == [1, 1, 1]
    assert as_whole("\u00a07 ") == 7


DATES = {  # and what 1/2/2024 is where they stand
    "iso": ["2024-03-01", "2024-02-28T12:00"],
    "%d.%m.%Y": ["01.03.2024", "28.02.2024"],
    "%Y/%m/%d %H:%M": ["2024/03/01 00:00", "2024/02/28 12:00"],
    "%m/%d/%Y": ["03/01/2024", "02/28/2024"],
    "%d/%m/%Y": ["01/03/2024", "28/02/2024"],
}


@pytest.mark.parametrize("form", DATES)
def test_a_column_of_time_and_a_feature_read_the_same_dates(form):
    """What `--time` orders by and what a model makes of a column are one reading."""
    dates = DATES[form]
    assert order_in_time(dates, "when", "t.csv").tolist() == [1, 0]
    import pandas as pd

    table = pd.DataFrame({"when": dates * 20, "size": np.arange(40) % 7 + 0.5})
    clf = OnlineTransferClassifier("pa").fit_domains([Domain("a", table, ["x", "y"] * 20)])
    column = clf.table_.used[0]
    read_as = DAY_FIRST if form == "%d/%m/%Y" else MONTH_FIRST
    written = (
        datetime.fromisoformat(dates[1]) if form == "iso" else datetime.strptime(dates[1], form)
    )
    assert (column.form, moment(dates[1], read_as)) == (read_as, column.start)
    assert column.start == written.replace(tzinfo=UTC).timestamp()


def test_dates_are_in_the_usual_digits():
    assert moment("\u0662\u0660\u0662\u0664-03-01") is None
    assert moment("\u0660\u0661.\u0660\u0663.2024") is None
    with pytest.raises(
        InputError, match=r"'\u0662\u0660\u0662\u0664-03-01' in row 2 is not a time"
    ):
        order_in_time(["2024-03-02", "\u0662\u0660\u0662\u0664-03-01"], "t", "x.csv")


E = "\u00e9t\u00e9"
E_MARK = unicodedata.normalize("NFD", "\u00e9t\u00e9")


def files_with(folder, name, label):
    """A table whose column and label are spelled so, in three formats."""
    rows = [{name: float(i), "b": 1.0, "y": label if i % 2 else "x"} for i in range(40)]
    (folder / "t.csv").write_text(
        f"{name},b,y\n" + "".join(f"{r[name]},{r['b']},{r['y']}\n" for r in rows)
    )
    (folder / "t.jsonl").write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    )
    parquet.write_table(pa.Table.from_pylist(rows), folder / "t.parquet")
    return [folder / "t.csv", folder / "t.jsonl", folder / "t.parquet"]


@pytest.mark.parametrize("written", [E, E_MARK], ids=["composed", "decomposed"])
@pytest.mark.parametrize("known", [E, E_MARK], ids=["composed", "decomposed"])
def test_an_accent_is_one_name_however_it_was_typed(tmp_path, known, written):
    """Of columns and of classes: a file finds those of the model, which are handed out as the model has them."""
    for path in files_with(tmp_path, written, written):
        domain = read(path, label="y")
        assert (domain.feature_names, set(domain.y.tolist())) == ((E, "b"), {E, "x"})
        [block] = blocks(path, Wanted(2, [known, "b"], "y", [known, "x"], new_classes=False))
        assert (block[1][0], set(block[3]), block[5]) == (
            1 if path.suffix != ".csv" else 2,
            {known, "x"},
            [],
        )
        [block] = blocks(path, Wanted(1, ["b"], known, None))
        assert block[3][:2] in ([0.0, 1.0], ["0.0", "1.0"])


@pytest.mark.parametrize("written", [E, E_MARK], ids=["composed", "decomposed"])
def test_a_table_fitted_in_memory_is_found_in_files_of_either_form(tmp_path, written):
    import pandas as pd

    words = ["red", "blue"] * 20
    table = pd.DataFrame({E_MARK: words, "b": np.arange(40) % 3 + 0.5})
    clf = OnlineTransferClassifier("pa").fit_domains([Domain("a", table, ["x", "y"] * 20)])
    (tmp_path / "t.csv").write_text(f"{written},b\nred,1.5\nblue,0.5\n")
    (tmp_path / "t.jsonl").write_text(
        f'{{"{written}": "red", "b": 1.5}}\n{{"{written}": "blue", "b": 0.5}}\n'
    )
    for name in ("t.csv", "t.jsonl"):
        [block] = blocks(tmp_path / name, Wanted(clf.table_.width, None, None, table=clf.table_))
        rows = clf.as_matrix([{E_MARK: "red", "b": 1.5}, {E_MARK: "blue", "b": 0.5}])
        assert block[2][0] == np.asarray(rows, np.float64).tobytes()


def test_two_columns_of_one_name_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text(f"{E},{E_MARK}\n1,2\n")
    with pytest.raises(InputError, match="header: more than one column of the name"):
        read(tmp_path / "t.csv")
    parquet.write_table(pa.table({E: [1.0], E_MARK: [2.0]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="table: more than one column of the name"):
        read(tmp_path / "t.parquet")
