from __future__ import annotations

import json

import numpy as np
import pytest

from hedgerow.core.errors import InputError
from hedgerow.data.stream_rows import BadRow, Instance, Rows, Wanted, label_reader

NAMED = Wanted(2, ["a", "b"], "y", np.array([0, 1]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,y", "column 'b' is missing"),
        ("c,y", "columns 'a', 'b' are missing"),
        ("a,b", "unknown label column 'y'"),
        ("a,a,b,y", "stands in the header twice"),
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
def test_labels_take_the_type_of_the_classes(classes: np.ndarray, value: object, label: object) -> None:
    read = label_reader(classes)(value)
    assert read == label
    assert type(read) is type(label)
