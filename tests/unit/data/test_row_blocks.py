"""Every format says the same; ids; labels that come later than their rows."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from support.row_inputs import WANTED, as_table, blocks, write_all

from hedgerow.core.errors import InputError
from hedgerow.rows import Wanted, open_rows


def test_every_format_says_the_same_and_goes_on_where_it_was(tmp_path):
    table = as_table()
    expected = np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()])
    paths = write_all(tmp_path, table)
    assert len(paths) == 11
    for path in paths:
        found = blocks(path, size=8)
        assert [len(block[0]) for block in found] == [8] * 6 + [2], path
        assert b"".join(block[2][0] for block in found) == expected.tobytes(), path
        assert [label for block in found for label in block[3]] == table["y"].to_pylist()
        assert [id for block in found for id in block[4]] == table["id"].to_pylist()
        assert [row for block in found for row in block[0]] == list(range(1, 51))
        for i, block in enumerate(found):
            assert blocks(path, size=8, start=block[-1]) == found[i + 1 :], path
        with open_rows(str(path), WANTED) as source:
            assert source.total == path.stat().st_size
            [block] = source
            assert source.done == source.total, path
            assert source.ignored == ("note",)
            assert block.file == str(path)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "ipc"])
def test_bad_rows_of_a_typed_table_are_named_as_those_of_text(tmp_path, suffix):
    nan = float("nan")
    inf = float("inf")
    table = pa.table({
        "a": pa.array([1, None, 3, 4, 5, 6], pa.int32()), "b": [1.0, 2, nan, inf, 5, 6],
        "y": ["0", "1", "2", "0", "seven", None], "id": ["u", "v", "w", "x", "y", "z"],
    })  # fmt: skip
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        parquet.write_table(table, path)
    else:
        with (pa.ipc.new_file if suffix == "arrow" else pa.ipc.new_stream)(
            str(path), table.schema
        ) as out:
            out.write_table(table)
    [block] = open_rows(str(path), WANTED)
    assert (block.X.tolist(), block.labels, block.ids) == ([[1, 1], [6, 6]], [0, None], ["u", "z"])
    assert (block.lines.tolist(), block.rows.tolist()) == ([1, 6], [1, 2])
    assert [(bad.line, bad.reason) for bad in block.bad] == [
        (2, "column 'a': missing value"),
        (3, "column 'b': nan is not a finite number"),
        (4, "column 'b': inf is not a finite number"),
        (5, "label 'seven' is not a number, as the model's labels are"),
    ]
    assert json.loads(block.bad[3].text) == {"a": 5, "b": 5.0, "y": "seven", "id": "y"}


def test_a_typed_column_of_nothing_but_nulls(tmp_path):
    names = {"a": [1, 2], "b": [True, False], "id": pa.array(["u", "v"]).dictionary_encode()}
    for kind in (pa.null(), pa.int8(), pa.string()):
        parquet.write_table(
            pa.table(names | {"y": pa.array([None, None], kind)}), tmp_path / "t.parquet"
        )
        [block] = open_rows(str(tmp_path / "t.parquet"), WANTED)
        assert (block.X.tolist(), block.labels, block.ids) == (
            [[1, 1], [2, 0]],
            [None, None],
            ["u", "v"],
        )


def test_a_typed_table_with_the_wrong_columns_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(
        pa.table({"a": [None, "red"], "b": [1, 2], "y": [[1], [2]], "id": ["u", "v"]}), path
    )
    with pytest.raises(InputError, match=r"t.parquet: row 2, column 'a': 'red' is not a number"):
        open_rows(str(path), WANTED)
    with pytest.raises(InputError, match="the label column 'y' holds list"):
        open_rows(str(path), Wanted(1, ["b"], "y"))
    with pytest.raises(InputError, match="column 'c' is missing; the input has a, b, y, id"):
        open_rows(str(path), Wanted(1, ["c"]))


# ---- ids and labels that come later


def test_ids_are_text_and_never_empty(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y,id\n1,2,0, 07 \n1,2,0, \n1,2,0,8\n")
    [block] = open_rows(str(tmp_path / "t.csv"), WANTED)
    assert (block.ids, block.rows.tolist(), block.lines.tolist()) == (["07", "8"], [1, 2], [2, 4])
    [bad] = block.bad
    assert (bad.line, bad.reason, bad.text) == (
        3,
        "column 'id': missing value; every row needs an id",
        "1,2,0, ",
    )


def test_a_label_that_comes_later_keeps_its_place(tmp_path):
    lines = [
        '{"id": "u", "a": 1, "b": 2}',
        '{"id": 7, "a": 3, "b": 4, "y": 1}',
        '{"id": "u", "y": 2}',
        '{"id": 9, "y": "0"}',
        '{"id": 7, "a": 5}',
        '{"id": "v", "a": 5, "b": 6}',
        '{"id": "v", "y": null}',
        '{"id": "w", "y": 77}',
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    first, late, last = open_rows(str(tmp_path / "t.jsonl"), WANTED)
    assert (first.ids, first.labels, first.late) == (["u", "7"], [None, 1], [])
    assert [(item.line, item.id, item.label) for item in late.late] == [(3, "u", 2), (4, "9", 0)]
    assert len(late.X) == 0
    assert [bad.reason for bad in late.bad] == ["column 'b' is missing"]
    assert (last.ids, last.rows.tolist()) == (["v"], [3])
    assert [bad.line for bad in last.bad] == [7, 8]
    assert "without a label" in last.bad[0].reason
    assert "'77' is not one of" in last.bad[1].reason


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
def test_a_file_of_ids_and_labels_alone(tmp_path, name):
    write_all(tmp_path, as_table(5))
    [block] = open_rows(str(tmp_path / name), Wanted(0, [], "y", [0, 1, 2], id="id"))
    assert (block.X.shape, block.ids, len(block.labels or [])) == (
        (5, 0),
        ["r0", "r1", "r2", "r3", "r4"],
        5,
    )
    assert block.late == []


def test_an_id_has_a_column_of_its_own():
    with pytest.raises(InputError, match="both id and label"):
        Wanted(1, ["a"], "y", id="y")
    with pytest.raises(InputError, match="'a' is a feature"):
        Wanted(1, ["a"], id="a")


def test_a_long_bad_row_is_cut(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y,id\n1,2,0," + "\u00e9" * 50_000 + ",\n")
    [block] = open_rows(str(tmp_path / "t.csv"), WANTED)
    assert len(block.bad[0].text) == 10_000
