from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from hedgerow.core.errors import InputError
from hedgerow.rows import Wanted, open_rows
from hedgerow.rows.readers import MOST_LINES
from hedgerow.rows.wanted import label_reader

NAMED = Wanted(2, ["a", "b"], "y", np.array([0, 1]))


@dataclass(frozen=True)
class Instance:
    row: int
    line: int
    x: np.ndarray
    label: Any


@dataclass(frozen=True)
class BadRow:
    line: int
    reason: str


class Lines:
    """Lines as a pipe that gives one at a time."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)

    def read1(self, most: int) -> bytes:
        line = next(self._lines, None)
        if line is None:
            return b""
        return (line if line.endswith("\n") else line + "\n").encode("utf-8", "surrogateescape")


class Rows:
    """The rows of a pipe one by one, good and bad in their order."""

    def __init__(self, lines: Iterable[str], wanted: Wanted, format: str | None = None) -> None:
        self.source = open_rows("-", wanted, format=format, descriptor=Lines(lines))

    @property
    def ignored(self) -> tuple[str, ...]:
        return self.source.ignored

    def __iter__(self) -> Iterator[Instance | BadRow]:
        for block in self.source:
            labels = block.labels or [None] * len(block.X)
            parts = zip(block.rows, block.lines, block.X, labels, strict=True)
            found: list[Instance | BadRow] = [
                Instance(int(row), int(line), x, label) for row, line, x, label in parts
            ]
            found += [BadRow(bad.line, bad.reason) for bad in block.bad]
            yield from sorted(found, key=lambda item: item.line)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,y", "column 'b' is missing"),
        ("c,y", "columns 'a', 'b' are missing"),
        ("a,b", "unknown label column 'y'"),
        ("a,a,b,y", "header: more than one column of the name"),
        ("", "empty"),
    ],
)
def test_a_header_that_cannot_fit_is_refused_at_once(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Rows([text] if text else [], NAMED, "csv")


def test_columns_are_found_by_name_and_others_ignored() -> None:
    rows = Rows(["id,y,b,a", "7,1,2,3", "", "8,,5,6"], NAMED)
    first, second = list(rows)
    assert rows.ignored == ("id",)
    assert isinstance(first, Instance)
    assert isinstance(second, Instance)
    assert (first.x.tolist(), first.label, first.line) == ([3, 2], 1, 2)
    assert (second.x.tolist(), second.label, second.line) == ([6, 5], None, 4)


def test_without_names_the_order_counts() -> None:
    [row] = Rows(["p,y,q", "3,1,2"], Wanted(2, None, "y", [0, 1]), "csv")
    assert isinstance(row, Instance)
    assert row.x.tolist() == [3, 2]
    [row] = Rows(["[4, 5]"], Wanted(2))
    assert isinstance(row, Instance)
    assert row.x.tolist() == [4, 5]
    with pytest.raises(InputError, match="3 feature columns"):
        Rows(["p,q,r", "1,2,3"], Wanted(2), "csv")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": 1}, "column 'b' is missing"),
        ({"a": 1, "b": None}, "column 'b': missing value"),
        ({"a": 1, "b": "x"}, "'x' is not a number"),
        ({"a": 1, "b": [2]}, "is not a number"),
        ({"a": 1, "b": float("nan")}, "not a finite number"),
        ({"a": 1, "b": 2, "y": 0.5}, "not a whole number"),
        ([1, 2], "not a JSON object"),
    ],
)
def test_a_bad_json_line_is_named_and_the_next_one_read(value: object, words: str) -> None:
    good = json.dumps({"a": 1, "b": 2, "y": 1})
    bad, fine = list(Rows([json.dumps(value), good], NAMED, "jsonl"))
    assert isinstance(bad, BadRow)
    assert bad.line == 1
    assert words in bad.reason
    assert isinstance(fine, Instance)
    assert fine.row == 1


def test_broken_json_is_a_bad_row() -> None:
    [bad] = Rows(['{"a": 1,'], NAMED)
    assert isinstance(bad, BadRow)
    assert "not JSON" in bad.reason


def test_a_quoted_line_break_keeps_line_numbers_true() -> None:
    lines = ["a,b,note,y\n", '1,2,"two\n', 'lines",0\n', "3,4,x,1\n"]
    assert [row.line for row in Rows(lines, NAMED, "csv")] == [2, 4]


HOPELESS_CSV = [
    ("1,2,nan", "label 'nan' is not a finite number"),
    ("1,2,inf", "label 'inf' is not a finite number"),
    ("1,2,-Infinity", "label '-Infinity' is not a finite number"),
    ("1,2,1e30", "label '1e30' is too large"),
    ("1,2," + "9" * 401, "(401 characters) is too large"),
    ("1,2," + "9" * 5000, "(5000 characters) is not a finite number"),
    ("1," + "9" * 401 + ",1", "(401 characters) is not a finite number"),
    ('1,"2,1', "a quote is opened and not closed"),
    ('"1,2,1', "a quote is opened and not closed"),
    ('1,2"3,1', "is not a number"),
    ('1,"2"3,1', "not CSV"),
    ("1," + "2" * 200_000 + ",1", "not CSV (field larger than field limit"),
    ("1,\udcff,1", "column 'b' is not UTF-8 text"),
]


@pytest.mark.parametrize(("bad", "words"), HOPELESS_CSV)
@pytest.mark.parametrize("after", [0, 3, 200])
def test_a_hopeless_row_of_a_csv_is_one_bad_row(bad: str, words: str, after: int) -> None:
    rows = list(Rows(["a,b,y\n", "1,2,0\n", bad + "\n", *["3,4,1\n"] * after], NAMED, "csv"))
    [found] = [row for row in rows if isinstance(row, BadRow)]
    assert found.line == 3
    assert words in found.reason
    assert len(found.reason) < 150
    assert [row.line for row in rows] == list(range(2, 4 + after))


DEEP = "[" * 100_000 + "]" * 100_000
LESS_DEEP = "[" * 900 + "]" * 900  # deep enough that Python can read it and not print it


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (f'{{"a": {DEEP}, "b": 2, "y": 1}}', "nested too deeply"),
        (DEEP, "nested too deeply"),
        (f'{{"a": {LESS_DEEP}, "b": 2, "y": 1}}', "column 'a': a list is not a number"),
        (f'{{"a": 1, "b": 2, "y": {LESS_DEEP}}}', "the label is a list"),
        ('{"a": 1, "b": 2, "y": {"kind": 1}}', "the label is an object"),
        ('{"a": 1, "b": %s, "y": 1}' % ("9" * 401), "(401 characters) is not a finite number"),
        ('{"a": 1, "b": %s, "y": 1}' % ("9" * 5000), "not JSON"),
        ('{"a": 1, "b": 2, "y": %s}' % ("9" * 401), "(401 characters) is too large"),
        ('{"a": 1, "b": 2, "y": Infinity}', "label 'inf' is not a finite number"),
        ('{"a": 1, "b": 1e999, "y": 1}', "inf is not a finite number"),
    ],
    ids=range(10),
)
def test_a_hopeless_line_of_json_is_one_bad_row(bad: str, words: str) -> None:
    good = '{"a": 1, "b": 2, "y": 1}'
    first, found, last = list(Rows([good, bad, good], NAMED, "jsonl"))
    assert isinstance(found, BadRow)
    assert found.line == 2
    assert words in found.reason
    assert isinstance(first, Instance)
    assert isinstance(last, Instance)


def test_a_quote_that_is_not_closed_swallows_nothing() -> None:
    good = [f'{i},2,"a note",0\n' for i in range(500)]
    for note in ('"open,0\n', '"open\n', '"open "" twice,0\n', '"closed late"",0\n'):
        lines = ["a,b,note,y\n", *good[:8], "1,2," + note, *good[8:]]
        rows = list(Rows(lines, NAMED, "csv"))
        assert [(row.line, isinstance(row, BadRow)) for row in rows] == [
            (i, i == 10) for i in range(2, 503)
        ]


def test_two_lines_with_one_quote_each_cost_two_rows() -> None:
    between = ["3,4,1\n"] * 9
    for opened, closed in (
        ('1,"2,0\n', '5,6",1\n'),
        ('"1,2,0\n', '5",6,1\n'),
        ('1,2,"0\n', '5,6,1"\n'),
    ):
        rows = list(Rows(["a,b,y\n", "1,2,0\n", opened, *between, closed, "7,8,1\n"], NAMED, "csv"))
        assert [row.line for row in rows if isinstance(row, BadRow)] == [3, 13]
        assert [row.line for row in rows] == list(range(2, 15))


def test_a_bad_number_beside_a_quoted_line_break_is_one_bad_row() -> None:
    lines = ["a,b,note,y\n", '1,x,"two\n', 'lines",0\n', "3,4,x,1\n"]
    assert [(row.line, isinstance(row, BadRow)) for row in Rows(lines, NAMED, "csv")] == [
        (2, True),
        (4, False),
    ]


def test_a_field_may_span_lines_up_to_the_limit() -> None:
    for breaks, bad in ((MOST_LINES - 1, 0), (MOST_LINES, MOST_LINES + 1)):
        note = '"' + "word\n" * breaks + '"'
        text = f"a,b,note,y\n1,2,{note},0\n3,4,x,1\n"
        rows = list(Rows(text.splitlines(keepends=True), NAMED, "csv"))
        assert sum(isinstance(row, BadRow) for row in rows) == bad
        assert isinstance(rows[-1], Instance)
        assert rows[-1].line == breaks + 3


def test_a_live_stream_waits_for_a_quote_no_longer_than_the_limit() -> None:
    taken = []

    def live():  # type: ignore[no-untyped-def]
        yield "a,b,y\n"
        yield '1,"2,0\n'
        while True:
            taken.append(1)
            yield "1,2,0\n"

    rows = iter(Rows(live(), NAMED, "csv"))
    assert isinstance(next(rows), BadRow)
    assert len(taken) < MOST_LINES
    assert [next(rows).line for _ in range(100)] == list(range(3, 103))
    assert len(taken) == 100


def test_tabs_and_a_header_of_numbers() -> None:
    [row] = Rows(["b\ta\ty", "2\t1\t0"], NAMED, "tsv")
    assert isinstance(row, Instance)
    assert row.x.tolist() == [1, 2]
    with pytest.raises(InputError, match="add a header line"):
        Rows(["1,2", "3,4"], Wanted(2), "csv")


@pytest.mark.parametrize(
    ("classes", "label", "unknown"), [([0, 1], "1", "7"), (["a", "b"], "b", "c"), ([0.5, 1.5], "0.5", "2"),
                                      ([True, False], "true", "maybe"), ([("a", 1)], "('a', 1)", "a")],
)  # fmt: skip
def test_an_unknown_label_can_be_refused(classes: list[object], label: str, unknown: str) -> None:
    wanted = Wanted(1, ["x"], "y", classes, new_classes=False)
    lines = [f'{{"x": 1, "y": "{text}"}}' for text in (label, unknown, "", label)]
    first, bad, unlabelled, last = Rows(lines, wanted, "jsonl")
    assert isinstance(bad, BadRow)
    assert f"label {unknown!r} is not one of the model's classes" in bad.reason
    assert isinstance(first, Instance)
    assert isinstance(unlabelled, Instance)
    assert isinstance(last, Instance)
    assert (first.label, unlabelled.label, last.row) == (last.label, None, 3)


def test_a_large_whole_label_is_not_rounded() -> None:
    assert label_reader(np.array([1, 2]))("9007199254740993") == 9007199254740993


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_the_time_to_read_is_linear_in_the_columns(format: str) -> None:
    def seconds(width: int) -> float:
        names = [f"column {i}" for i in range(width)]
        values = [
            *names,
            *(f"other {i}" for i in range(width)),
        ]  # as many that the model does not know
        if format == "csv":
            lines = [",".join(values), ",".join(["1"] * len(values))]
        else:
            lines = [json.dumps(dict.fromkeys(values, 1))]
        began = time.process_time()
        rows = Rows(lines, Wanted(width, names), format)
        assert all(isinstance(row, Instance) for row in rows)
        assert len(rows.ignored) == width
        return time.process_time() - began

    small, large = (min(seconds(width) for _ in range(5)) for width in (2_000, 40_000))
    assert (
        large < 100 * small
    )  # 20 times the columns: about 20 times the work, 400 if every name looks at every other


def test_rows_are_read_one_at_a_time() -> None:
    taken = []

    def endless():  # type: ignore[no-untyped-def]
        yield "a,b,y\n"
        while True:
            taken.append(1)
            yield "1,2,0\n"

    rows = iter(Rows(endless(), NAMED, "csv"))
    next(rows)
    assert len(taken) == 1


@pytest.mark.parametrize(
    ("classes", "value", "label"),
    [
        (np.array([1, 2]), "2", 2),
        (np.array([1, 2]), 2.0, 2),
        (np.array([0.5, 1.0]), "1", 1.0),
        (np.array(["1", "2"]), 2, "2"),
        (np.array(["a", "b"]), " a ", "a"),
        (np.array([True, False]), "true", True),
        (np.array([1, 2]), None, None),
        (np.array([1, 2]), "", None),
        (np.array(["a"]), float("nan"), None),
    ],
)
def test_labels_take_the_type_of_the_classes(
    classes: np.ndarray, value: object, label: object
) -> None:
    read = label_reader(classes)(value)
    assert read == label
    assert type(read) is type(label)
