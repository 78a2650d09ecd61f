"""The fast way decides nothing, a cut changes nothing, and a pipe says what a file says."""

from __future__ import annotations

import json
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from support.laws import law
from support.row_inputs import Slowly, blocks, line_by_line

from hedgerow.core.domains import Frame
from hedgerow.core.errors import InputError
from hedgerow.data import read
from hedgerow.rows import readers

NUMBERS = [
    *(
        "1",
        "-2.5",
        " 3 ",
        "1e3",
        "+4",
        "0",
        "-0",
        "-0.0",
        "1_000",
        "nan",
        "inf",
        "",
        "x",
        "1e999",
        "+-1",
        ".5",
        "5.",
    ),
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
    messy = st.builds(
        lambda row, end: ",".join(row) + end, st.tuples(*cells), st.sampled_from(ENDS)
    )
    quoted = st.builds(
        lambda a, y, i, note: f'{a},"{a}","{y}","{i}",{note}\n',
        st.integers(-5, 5),
        st.integers(0, 2),
        st.sampled_from(["u", " v ", "a,b", "", 'q""q', "w\u00e9"]),
        st.sampled_from(QUOTED),
    )
    plain_text = st.lists(good, max_size=12).map("".join) | st.lists(quoted, max_size=5).map(
        "".join
    )
    return st.lists(plain_text | messy | good, max_size=12).map("".join)


def as_bytes(text: str) -> bytes:
    return text.encode().replace("\xff".encode(), b"\xff")


@law(400)
@given(messy_csv(), st.integers(1, 9), st.sampled_from(["", "\ufeff"]), st.booleans())
def test_blocks_of_csv_are_read_as_line_by_line(tmp_path_factory, text, size, mark, closed):
    path = tmp_path_factory.getbasetemp() / "messy.csv"
    whole = as_bytes(mark + "a,b,y,id,note\n" + text)
    path.write_bytes(whole if closed else whole.rstrip(b"\r\n"))
    with (
        mock.patch.object(readers, "SOME", 1),
        mock.patch.object(readers, "FEW", 2),
    ):  # so that parts are small enough to be plain
        fast = blocks(path, size=size)
    with line_by_line():
        careful = blocks(path, size=size)
    assert fast == careful
    for i, block in enumerate(fast):
        assert len(block[0]) + len(block[5]) == size or i == len(fast) - 1
        assert blocks(path, size=size, start=json.loads(json.dumps(block[-1]))) == fast[i + 1 :]


VALUES = ["1", "-2.5", "1e3", "0", "-0", "-0.0", "NaN", "Infinity", "1e999", "null", '"1"', '"x"', "true", "[1]", "{}",
          "9007199254740993", "12345678901234567890", "0.1", "01", "1."]  # fmt: skip
JSON_LABELS = [
    "0",
    "1",
    "2",
    '"1"',
    "null",
    "7",
    "1.0",
    '"x"',
    '"\xff"',
    '"\\ud800"',
    "true",
    "[1]",
]
JSON_IDS = [
    '"u"',
    "7",
    '" v "',
    '""',
    "null",
    "1.5",
    "true",
    '"\xff"',
    '"w\u00e9"',
    '"{"',
    '"a\\"b"',
]


JSON_ENDS = ["}\n", "}\n", "}\r\n", "}\r", "} {}\n", "\n", "}\n\n"]


def messy_json():
    good = st.builds(
        lambda a, b, y, i: f'{{"a":{a},"b":{b},"y":{y},"id":"{i}"}}\n',
        st.integers(-5, 5),
        st.floats(-1e9, 1e9),
        st.integers(0, 2),
        st.integers(0, 99),
    )
    late = st.builds(
        lambda y, i: f'{{"id": {i}, "y": {y}}}\n',
        st.sampled_from(JSON_LABELS),
        st.sampled_from(JSON_IDS),
    )
    columns = {"a": VALUES, "b": VALUES, "y": JSON_LABELS, "id": JSON_IDS, "c": VALUES}
    pairs = (
        st.sampled_from([f'"{name}":{value}' for value in values])
        for name, values in columns.items()
    )
    messy = st.builds(
        lambda some, skip, end: (
            "{" + ",".join(pair for i, pair in enumerate(some) if i != skip) + end
        ),
        st.tuples(*pairs),
        st.integers(0, 6),
        st.sampled_from(JSON_ENDS),
    )
    other = st.sampled_from(
        ["[1, 2]\n", "\n", "7\n", '{"a":1,"a":2,"b":3,"y":1,"id":"u"}\n', "\ufeff{}\n"]
    )
    return st.lists(
        st.lists(good, max_size=8).map("".join) | good | late | messy | other, max_size=10
    ).map("".join)


@law(400)
@given(messy_json(), st.integers(1, 9))
def test_json_is_read_the_same_with_orjson_and_without(tmp_path_factory, text, size):
    path = tmp_path_factory.getbasetemp() / "messy.jsonl"
    path.write_bytes(as_bytes(text))
    fast = blocks(path, size=size)
    with line_by_line():
        careful = blocks(path, size=size)
    assert fast == careful
    for i, block in enumerate(fast):
        assert not (block[0] and block[6])  # rows or labels that came later
        assert blocks(path, size=size, start=json.loads(json.dumps(block[-1]))) == fast[i + 1 :]


def together(found: list[tuple]) -> tuple:
    """What all blocks say together."""
    rows = [
        (*pair, block[3][i], block[4][i])
        for block in found
        for i, pair in enumerate(zip(*block[:2], strict=True))
    ]
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
    assert together(blocks("-", descriptor=Slowly(whole, parts))) == together(blocks(path))


def test_plain_text_is_read_the_fast_way(tmp_path):
    text = "".join(f"{i},{i / 7},{i % 3},r{i},n\n" for i in range(1000))
    (tmp_path / "t.csv").write_text("a,b,y,id,note\n" + text)
    quoted = "".join(f'{i},"{i / 7}",{i % 3},"r{i}","n, m"\r\n' for i in range(1000))
    (tmp_path / "quoted.csv").write_text("a,b,y,id,note\n" + quoted)
    rows = [json.dumps({"a": i, "b": i / 7, "y": i % 3, "id": f"r{i}"}) for i in range(1000)]
    (tmp_path / "t.jsonl").write_text("\n".join(rows) + "\n")
    refuse = AssertionError("read with care")
    with mock.patch.object(readers.CsvReader, "_careful", side_effect=refuse):
        a, b, c = (blocks(tmp_path / name) for name in ("t.csv", "t.jsonl", "quoted.csv"))
    assert [block[2:5] for block in a] == [block[2:5] for block in b] == [block[2:5] for block in c]


def test_one_bad_row_does_not_make_the_others_slow(tmp_path):
    rows = [f"{i},{i / 7},{i % 3},r{i}\n" for i in range(5000)]
    rows[3210] = "1,x,0,r\n"
    (tmp_path / "t.csv").write_text("a,b,y,id\n" + "".join(rows))
    read = readers.CsvReader._careful
    careful = []

    def counted(self, first, last):
        careful.append(last - first)
        return read(self, first, last)

    with mock.patch.object(readers.CsvReader, "_careful", counted):
        found = blocks(tmp_path / "t.csv", size=5000)
    assert [bad.line for block in found for bad in block[5]] == [3212]
    assert sum(careful) <= 2 * readers.FEW


def as_read(path, label):
    """A domain as values that can be compared, or why there is none."""
    try:
        domain = read(path, label=label)
    except InputError as error:
        return str(error)
    X = domain.X
    cells = [column.tolist() for column in X.columns] if isinstance(X, Frame) else X.tolist()
    return repr((domain.feature_names, cells, domain.y if domain.y is None else domain.y.tolist()))


@law(200)
@given(messy_csv(), st.sampled_from([None, "y", "note"]))
def test_a_source_is_read_in_blocks_as_line_by_line(tmp_path_factory, text, label):
    path = tmp_path_factory.getbasetemp() / "source.csv"
    path.write_bytes(as_bytes("a,b,y,id,note\n" + text))
    with mock.patch.object(readers, "SOME", 1), mock.patch.object(readers, "FEW", 2):
        fast = as_read(path, label)
    with line_by_line():
        assert as_read(path, label) == fast
