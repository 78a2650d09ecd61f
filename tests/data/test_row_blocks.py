"""Blocks of rows: the fast way decides nothing, a cut changes nothing, every format says the same."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
import time
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.core.errors import InputError
from hedgerow.data import csv_rows, json_rows
from hedgerow.data.row_blocks import RowBlock, Wanted, open_rows

WANTED = Wanted(2, ["a", "b"], "y", [0, 1, 2], new_classes=False, id="id")


@contextmanager
def without_pyarrow():
    """Only the careful reader."""
    with (
        mock.patch.object(csv_rows, "plain_reader", return_value=None),
        mock.patch.object(json_rows, "plain_reader", return_value=None),
    ):
        yield


def plain(block: RowBlock) -> tuple:
    """A block as values that can be compared; bits of the features."""
    x = block.X.tobytes(), block.X.shape
    return block.rows.tolist(), block.lines.tolist(), x, block.labels, block.ids, block.bad, block.late, block.end


def blocks(path, wanted=WANTED, **options) -> list[tuple]:
    with open_rows(str(path), wanted, **options) as source:
        return [plain(block) for block in source]


# ---- messy text

NUMBERS = [
    *("1", "-2.5", " 3 ", "1e3", "+4", "0", "-0", "-0.0", "1_000", "nan", "inf", "", "x", "1e999", "+-1", ".5", "5."),
    *("9007199254740993", "0.1", "1e-400", "\u0663", "\x1f1", "\xff", "1\x00"),
    *('"7"', '"8', '8"', '"a,b"', '"1\n2"'),
]
LABELS = ["0", "1", "2", " 1 ", "", "7", "1.0", "x", "\xff", '"2"', '"1', '0"']
IDS = ["u", "v ", "", "w\u00e9", "\xff", '"q"', '"']
NOTES = ["n", "", '"two\nlines"', '"open', "tab\there", "\r", "a\x0bb", "\u2028"]
ENDS = ["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\n \n", ",extra\n"]


QUOTED = ['"n"', '""', '"n, m"', '"a""b"', 'a"b', '"a"b', '"a" ', ' "a"', '"a\nb"', "n"]


def messy_csv():
    good = st.builds(
        lambda a, b, y, i: f"{a},{b},{y},{i},n\n",
        st.integers(-5, 5),
        st.floats(-1e9, 1e9),
        st.integers(0, 2),
        st.integers(0, 99),
    )
    cells = map(st.sampled_from, (NUMBERS, NUMBERS, LABELS, IDS, NOTES))
    messy = st.builds(lambda row, end: ",".join(row) + end, st.tuples(*cells), st.sampled_from(ENDS))
    quoted = st.builds(
        lambda a, y, i, note: f'{a},"{a}","{y}","{i}",{note}\n',
        st.integers(-5, 5),
        st.integers(0, 2),
        st.sampled_from(["u", " v ", "a,b", "", 'q""q', "w\u00e9"]),
        st.sampled_from(QUOTED),
    )
    plain_text = st.lists(good, max_size=12).map("".join) | st.lists(quoted, max_size=5).map("".join)
    return st.lists(plain_text | messy | good, max_size=12).map("".join)


def as_bytes(text: str) -> bytes:
    return text.encode().replace("\xff".encode(), b"\xff")


@settings(max_examples=400)
@given(messy_csv(), st.integers(1, 9), st.sampled_from(["", "\ufeff"]), st.booleans())
def test_the_fast_way_and_the_careful_one_read_the_same_csv(tmp_path_factory, text, size, mark, closed):
    path = tmp_path_factory.getbasetemp() / "messy.csv"
    whole = as_bytes(mark + "a,b,y,id,note\n" + text)
    path.write_bytes(whole if closed else whole.rstrip(b"\r\n"))
    with mock.patch.object(csv_rows, "FEW", 2):  # so that parts are small enough to be plain
        fast = blocks(path, size=size)
    with without_pyarrow():
        careful = blocks(path, size=size)
    assert fast == careful
    for i, block in enumerate(fast):
        assert len(block[0]) + len(block[5]) == size or i == len(fast) - 1
        assert blocks(path, size=size, start=json.loads(json.dumps(block[-1]))) == fast[i + 1 :]


VALUES = ["1", "-2.5", "1e3", "0", "-0", "-0.0", "NaN", "Infinity", "1e999", "null", '"1"', '"x"', "true", "[1]", "{}",
          "9007199254740993", "12345678901234567890", "0.1", "01", "1."]  # fmt: skip
JSON_LABELS = ["0", "1", "2", '"1"', "null", "7", "1.0", '"x"', '"\xff"', '"\\ud800"', "true", "[1]"]
JSON_IDS = ['"u"', "7", '" v "', '""', "null", "1.5", "true", '"\xff"', '"w\u00e9"', '"{"', '"a\\"b"']


JSON_ENDS = ["}\n", "}\n", "}\r\n", "}\r", "} {}\n", "\n", "}\n\n"]


def messy_json():
    good = st.builds(
        lambda a, b, y, i: f'{{"a":{a},"b":{b},"y":{y},"id":"{i}"}}\n',
        st.integers(-5, 5),
        st.floats(-1e9, 1e9),
        st.integers(0, 2),
        st.integers(0, 99),
    )
    late = st.builds(lambda y, i: f'{{"id": {i}, "y": {y}}}\n', st.sampled_from(JSON_LABELS), st.sampled_from(JSON_IDS))
    columns = {"a": VALUES, "b": VALUES, "y": JSON_LABELS, "id": JSON_IDS, "c": VALUES}
    pairs = (st.sampled_from([f'"{name}":{value}' for value in values]) for name, values in columns.items())
    messy = st.builds(
        lambda some, skip, end: "{" + ",".join(pair for i, pair in enumerate(some) if i != skip) + end,
        st.tuples(*pairs),
        st.integers(0, 6),
        st.sampled_from(JSON_ENDS),
    )
    other = st.sampled_from(["[1, 2]\n", "\n", "7\n", '{"a":1,"a":2,"b":3,"y":1,"id":"u"}\n', "\ufeff{}\n"])
    return st.lists(st.lists(good, max_size=8).map("".join) | good | late | messy | other, max_size=10).map("".join)


@settings(max_examples=400)
@given(messy_json(), st.integers(1, 9))
def test_the_fast_way_and_the_careful_one_read_the_same_json(tmp_path_factory, text, size):
    path = tmp_path_factory.getbasetemp() / "messy.jsonl"
    path.write_bytes(as_bytes(text))
    with mock.patch.object(json_rows, "FEW", 2):
        fast = blocks(path, size=size)
    with without_pyarrow():
        careful = blocks(path, size=size)
    assert fast == careful
    for i, block in enumerate(fast):
        assert not (block[0] and block[6])  # rows or labels that came later
        assert blocks(path, size=size, start=json.loads(json.dumps(block[-1]))) == fast[i + 1 :]


class Slowly(io.RawIOBase):
    """Bytes that come in parts."""

    def __init__(self, data: bytes, parts: list[int]) -> None:
        self._data, self._parts, self._turn = data, parts, 0

    def read1(self, most: int) -> bytes:
        count = min(self._parts[self._turn % len(self._parts)], most)
        self._turn += 1
        part, self._data = self._data[:count], self._data[count:]
        return part


def records(found: list[tuple]) -> tuple:
    """What all blocks say together."""
    rows = [(*pair, block[3][i], block[4][i]) for block in found for i, pair in enumerate(zip(*block[:2], strict=True))]
    return (
        rows,
        b"".join(block[2][0] for block in found),
        [b for f in found for b in f[5]],
        [b for f in found for b in f[6]],
    )


@given(messy_csv(), st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_a_pipe_says_what_the_file_says(tmp_path_factory, text, parts):
    path = tmp_path_factory.getbasetemp() / "piped.csv"
    whole = as_bytes("a,b,y,id,note\n" + text)
    path.write_bytes(whole)
    assert records(blocks("-", descriptor=Slowly(whole, parts))) == records(blocks(path))


def test_plain_text_is_read_the_fast_way(tmp_path):
    text = "".join(f"{i},{i / 7},{i % 3},r{i},n\n" for i in range(1000))
    (tmp_path / "t.csv").write_text("a,b,y,id,note\n" + text)
    quoted = "".join(f'{i},"{i / 7}",{i % 3},"r{i}","n, m"\r\n' for i in range(1000))
    (tmp_path / "quoted.csv").write_text("a,b,y,id,note\n" + quoted)
    rows = [json.dumps({"a": i, "b": i / 7, "y": i % 3, "id": f"r{i}"}) for i in range(1000)]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    refuse = AssertionError("read with care")
    with (
        mock.patch.object(csv_rows.CsvRows, "_careful", side_effect=refuse),
        mock.patch.object(json_rows.JsonRows, "_careful", side_effect=refuse),
    ):
        a, b, c = (blocks(tmp_path / name) for name in ("t.csv", "t.jsonl", "quoted.csv"))
    assert [block[2:5] for block in a] == [block[2:5] for block in b] == [block[2:5] for block in c]


def test_one_bad_row_does_not_make_the_others_slow(tmp_path):
    rows = [f"{i},{i / 7},{i % 3},r{i}\n" for i in range(5000)]
    rows[3210] = "1,x,0,r\n"
    (tmp_path / "t.csv").write_text("a,b,y,id\n" + "".join(rows))
    read, careful = csv_rows.CsvRows._careful, []

    def counted(self, first, last):
        careful.append(last - first)
        return read(self, first, last)

    with mock.patch.object(csv_rows.CsvRows, "_careful", counted):
        found = blocks(tmp_path / "t.csv", size=5000)
    assert [bad.line for block in found for bad in block[5]] == [3212]
    assert sum(careful) <= 2 * csv_rows.FEW


# ---- formats


def as_table(n=50):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, n)
    return pa.table(
        {"id": [f"r{i}" for i in range(n)], "b": rng.normal(size=n), "y": y, "note": ["x"] * n, "a": np.arange(n)}
    )


def write_all(folder, table):
    """The same table in every format; the paths."""
    from pyarrow import csv, ipc

    csv.write_csv(table, folder / "t.csv", csv.WriteOptions(quoting_style="none"))
    csv.write_csv(table, folder / "quoted.csv")
    csv.write_csv(table, folder / "t.tsv", csv.WriteOptions(delimiter="\t", quoting_style="none"))
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    for name in ("t.csv", "t.tsv", "t.jsonl"):
        text = (folder / name).read_bytes()
        (folder / f"{name}.gz").write_bytes(gzip.compress(text))
        with pa.CompressedOutputStream(str(folder / f"{name}.zst"), "zstd") as out:
            out.write(text)
    parquet.write_table(table, folder / "t.parquet", row_group_size=7)
    with ipc.new_file(str(folder / "t.arrow"), table.schema) as out:
        out.write_table(table, max_chunksize=9)
    with ipc.new_stream(str(folder / "t.ipc"), table.schema) as out:
        out.write_table(table, max_chunksize=9)
    pa.feather.write_feather(table, folder / "t.feather", compression="zstd")
    return sorted(path for path in folder.iterdir() if path.is_file())


def test_every_format_says_the_same_and_goes_on_where_it_was(tmp_path):
    import pyarrow.feather  # noqa: F401

    table = as_table()
    expected = np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()])
    paths = write_all(tmp_path, table)
    assert len(paths) == 14
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
    nan, inf = float("nan"), float("inf")
    table = pa.table({
        "a": pa.array([1, None, 3, 4, 5, 6], pa.int32()), "b": [1.0, 2, nan, inf, 5, 6],
        "y": ["0", "1", "2", "0", "seven", None], "id": ["u", "v", "w", "x", "y", "z"],
    })  # fmt: skip
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        parquet.write_table(table, path)
    else:
        with (pa.ipc.new_file if suffix == "arrow" else pa.ipc.new_stream)(str(path), table.schema) as out:
            out.write_table(table)
    [block] = open_rows(str(path), WANTED)
    assert (block.X.tolist(), block.labels, block.ids) == ([[1, 1], [6, 6]], [0, None], ["u", "z"])
    assert (block.lines.tolist(), block.rows.tolist()) == ([1, 6], [1, 2])
    assert [(bad.line, bad.reason) for bad in block.bad] == [
        (2, "column 'a': missing value"),
        (3, "column 'b': nan is not a finite number"),
        (4, "column 'b': inf is not a finite number"),
        (5, "label 'seven' is not a number, as the model's classes are"),
    ]
    assert json.loads(block.bad[3].text) == {"a": 5, "b": 5.0, "y": "seven", "id": "y"}


def test_a_typed_table_with_the_wrong_columns_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": [None, "red"], "b": [1, 2], "y": [[1], [2]], "id": ["u", "v"]}), path)
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
    assert (bad.line, bad.reason, bad.text) == (3, "column 'id': missing value; every row needs an id", "1,2,0, ")


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
    assert (block.X.shape, block.ids, len(block.labels or [])) == ((5, 0), ["r0", "r1", "r2", "r3", "r4"], 5)
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


# ---- folders and patterns


def days(folder, *texts, suffix="csv"):
    folder.mkdir(exist_ok=True)
    for i, text in enumerate(texts):
        (folder / f"day-{i}.{suffix}").write_text(text)
    return folder


def test_a_folder_and_a_pattern_are_one_stream(tmp_path):
    folder = days(tmp_path / "d", "a,b,y,id\n1,2,0,u\n3,4,1,v\n5,6,1,w\n", "id,y,b,a\nx,2,8,7\n")
    for name in (".hidden.csv", "_SUCCESS", "README.md"):
        (folder / name).write_text("?")
    for input in (folder, folder / "day-*.csv", folder / "*.csv"):
        found = blocks(input, size=2)
        assert [(block[0], block[1], block[4]) for block in found] == [([1, 2], [2, 3], ["u", "v"]), ([3], [4], ["w"]),
                                                                        ([4], [2], ["x"])]  # fmt: skip
        assert np.frombuffer(found[2][2][0]).tolist() == [7, 8]
        for i, block in enumerate(found):
            assert blocks(input, size=2, start=block[-1]) == found[i + 1 :]


def test_a_day_that_is_added_is_read_and_one_that_is_gone_is_missed(tmp_path):
    folder = days(tmp_path / "d", "a,b,y,id\n1,2,0,u\n")
    [block] = blocks(folder)
    days(folder, "a,b,y,id\n1,2,0,u\n", "a,b,y,id\n3,4,0,v\n")
    assert [found[4] for found in blocks(folder, start=block[-1])] == [["v"]]
    (folder / "day-0.csv").unlink()
    with pytest.raises(InputError, match=r"day-0.csv, which is not part of the input any more"):
        blocks(folder, start=block[-1])


def test_inputs_that_mean_no_files_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    mixed = days(days(tmp_path / "mixed", "a,b,y,id\n"), "{}", suffix="jsonl")
    other = days(tmp_path / "other", "?", suffix="xlsx")
    for input, words in (
        (tmp_path / "empty", "no file of a known format in this folder .*it is empty"),
        (other, "no file of a known format in this folder .*it holds day-0.xlsx"),
        (
            mixed,
            r"files of different formats, day-0.csv and day-0.jsonl; choose one with a pattern, for instance '\*.csv'",
        ),
        (mixed / "*", "files of different formats"),
        (mixed / "night-*.csv", "no file matches this pattern"),
        (other / "*", "day-0.xlsx has no known suffix"),
        (tmp_path / "nothing.csv", "no such file"),
        (tmp_path / "t.parquet.gz", "no such file"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            open_rows(str(input), WANTED)
        assert str(input) in str(caught.value)


def test_columns_that_differ_between_files_are_named_with_both(tmp_path):
    folder = days(tmp_path / "d", "a,b,y,id\n1,2,0,u\n", "a,c,y,id\n3,4,0,v\n")
    with pytest.raises(InputError, match=r"day-1.csv: column 'b' is missing.*the first file is .*day-0.csv"):
        blocks(folder)
    with pytest.raises(InputError, match=r"day-1.csv: column 'b' is missing.*the first file is .*day-0.csv"):
        blocks(folder, Wanted(2, None, "y", [0], id="id"))


def test_damaged_files_are_named(tmp_path):
    for path in write_all(tmp_path, as_table(2000)):
        if path.suffix in (".csv", ".tsv", ".jsonl"):
            continue
        whole = path.read_bytes()
        for damaged in (whole[: len(whole) // 2], b"nonsense" + whole[8:]):
            path.write_bytes(damaged)
            with pytest.raises(InputError, match=r"cut off or damaged|not a readable") as caught:
                blocks(path)
            assert str(caught.value).count(str(path)) == 1, caught.value


# ---- streams known again


def test_a_stream_is_known_again_when_it_has_grown(tmp_path):
    path, other = tmp_path / "t.csv", tmp_path / "u.csv"
    path.write_text("a,b,y,id\n1,2,0,u")
    other.write_text("a,b,y,id\n1,3,0,u\n")
    with open_rows(str(path), WANTED) as source:
        identity = source.identity
        [block] = source
    with path.open("a") as file:
        file.write("\n" + "3,4,0,v\n" * 1000)
    with open_rows(str(path), WANTED, start=block.end) as source:
        assert source.continues(identity)
        first = next(iter(source))
    with open_rows(str(other), WANTED) as source:
        assert not source.continues(identity)
    assert (first.rows[0], first.lines[0], first.ids[0]) == (2, 3, "v")
    with open_rows(str(path), WANTED) as source:
        longer = source.identity
    with path.open("a") as file:
        file.write("3,4,0,v\n")
    with open_rows(str(path), WANTED) as source:
        assert source.identity == longer


# ---- pipes


@contextmanager
def piped(wanted=WANTED, **options):
    """A pipe to write to, and the blocks that come out of it."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream, os.fdopen(write, "wb", buffering=0) as feed:
        feed.write(b"a,b,y,id\n")
        with open_rows("-", wanted, descriptor=stream, **options) as source:
            yield feed, iter(source)


def test_rows_of_a_pipe_come_out_as_soon_as_they_are_there():
    with piped(size=3) as (feed, source):
        feed.write(b"1,2,0,u\n3,4")
        assert next(source).ids == ["u"]
        feed.write(b",1,v\n5,6,0,w\n")
        assert next(source).ids == ["v", "w"]
        feed.write(b"1,2,0,x\n" * 4)
        assert [next(source).ids, next(source).ids] == [["x"] * 3, ["x"]]
        feed.write(b'1,2,0,y\n1,2,0,"z')
        assert next(source).ids == ["y"]
        feed.write(b'"\n')
        assert next(source).ids == ["z"]
        feed.write(b"7,8,1,end")
        feed.close()
        assert next(source).ids == ["end"]
        assert next(source, None) is None


def test_a_pipe_goes_on_after_what_was_read():
    text = b"a,b,y,id\n1,2,0,u\n3,4,0,v\n5,6,0,w\n"
    first = next(iter(open_rows("-", WANTED, descriptor=Slowly(text, [20]), size=1)))
    assert first.ids == ["u"]
    rest = list(open_rows("-", WANTED, descriptor=Slowly(text, [20]), size=1, start=first.end))
    assert [(block.ids, block.rows.tolist(), block.lines.tolist()) for block in rest] == [
        (["v"], [2], [3]),
        (["w"], [3], [4]),
    ]


def test_a_named_pipe_and_arrow_through_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "p")
    writer = threading.Thread(target=lambda: (tmp_path / "p").write_text("a,b,y,id\n1,2,0,u\n"))
    writer.start()
    with open_rows(str(tmp_path / "p"), WANTED) as source:
        assert source.total is None
        assert [block.ids for block in source] == [["u"]]
    writer.join()
    write_all(tmp_path, as_table())
    with (tmp_path / "t.ipc").open("rb") as stream:
        found = list(open_rows("-", WANTED, format="arrow", descriptor=stream))
    assert sum(len(block.X) for block in found) == 50
    with pytest.raises(InputError, match="Parquet cannot be read from a pipe"):
        open_rows("-", WANTED, format="parquet", descriptor=io.BytesIO(b""))


def test_blocks_of_a_csv_are_read_fast(tmp_path):
    X = np.random.default_rng(0).normal(size=(20_000, 20))
    names = [f"f{j}" for j in range(20)]
    text = "\n".join(",".join(map(repr, row)) + ",1" for row in X.tolist())
    (tmp_path / "t.csv").write_text(",".join([*names, "y"]) + "\n" + text)

    def seconds():
        began = time.perf_counter()
        assert sum(len(block[0]) for block in blocks(tmp_path / "t.csv", Wanted(20, names, "y", [0, 1]))) == 20_000
        return time.perf_counter() - began

    fast = min(seconds() for _ in range(5))
    with without_pyarrow():
        slow = min(seconds() for _ in range(2))
    assert fast < slow / 3  # about a tenth
