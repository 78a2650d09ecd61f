"""What each column of a table becomes, and what is said of those that cannot be used."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from hedgerow import InputError, OnlineTransferClassifier
from hedgerow.core.domains import Frame
from hedgerow.tables import Named, TableEncoder, TableOptions, learn


def encoder_of(columns, target=None, **options):
    def table(given):
        return Frame.of_rows(
            [dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True)]
        )

    named = None if target is None else Named("target", table(target))
    return learn([Named("source", table(columns))], named, TableOptions.of(options))[0]


TWENTY = list(range(20))
KINDS = {
    "number": ([0.5 * i for i in TWENTY], "number"),
    "whole numbers with holes": ([i * i for i in TWENTY], "number"),
    "numbers as text": ([f" {i}.5" for i in TWENTY], "number"),
    "gaps": ([None, "", "NA", "nan", *(i * i for i in range(16))], "number, with gaps"),
    "boolean": (["yes", "No"] * 10, "boolean"),
    "true": ([True, False] * 10, "boolean"),
    "category": (["a", "b", "c", "d"] * 5, "category of 4"),
    "many": ([f"v{i % 40}" for i in range(200)], "category, hashed to 32 places"),
    "date": ([f"2024-01-{i + 1:02d}" for i in TWENTY], "date: days since the start, weekday"),
    "time": (
        [f"2024-01-{i + 1:02d}T{i:02d}:30" for i in TWENTY],
        "date: days since the start, hour, weekday",
    ),
    "German date": ([f"{i + 1}.1.2024" for i in TWENTY], "date: days since the start, weekday"),
    "constant": (["x"] * 20, "left out: constant"),
    "empty": ([None] * 20, "left out: empty"),
    "row number": (TWENTY, "left out: id-like"),
    "user_id": ([i * 1000 for i in TWENTY], "left out: id-like"),
    "code": ([f"x{i}" for i in TWENTY], "left out: all different"),
    "note": (
        [f"he said that it was number {i}" for i in TWENTY],
        "left out: text (--column text=NAME uses its words)",
    ),
}


@pytest.mark.parametrize(("name", "cells", "words"), [(k, *v) for k, v in KINDS.items()], ids=KINDS)
def test_a_column_is_recognised(name, cells, words):
    found = encoder_of({name: cells, "beside": [(i * 7) % 5 + 0.5 for i in range(len(cells))]})
    assert dict(found.rows())[name] == words


def test_options_say_more_than_cells():
    columns = {
        "code": [f"x{i}" for i in TWENTY],
        "age": [i % 7 for i in TWENTY],
        "b": [i % 5 for i in TWENTY],
    }
    columns |= {
        "note": [f"so {i} it is" for i in TWENTY],
        "at": [1.7e9 + 86400 * i for i in TWENTY],
    }
    columns |= {"nr": [i % 3 for i in TWENTY]}
    found = dict(
        encoder_of(columns, keep="code", drop=["age"], text="note", time="at", id="nr").rows()
    )
    assert found == {
        "code": "category, hashed to 32 places", "note": "text, words hashed to 256 places",
        "at": "date: days since the start, weekday", "b": "number", "age": "left out: dropped", "nr": "left out: id",
    }  # fmt: skip
    with pytest.raises(InputError, match="unknown column 'codes'; did you mean 'code'"):
        encoder_of(columns, keep="codes")
    with pytest.raises(InputError, match="'b' cannot be both drop and keep"):
        encoder_of(columns, keep="b", drop="b")
    with pytest.raises(InputError, match="unknown option of table 'kept'"):
        OnlineTransferClassifier(table={"kept": "b"}).fit(pd.DataFrame(columns), [0, 1] * 10)


def test_cells_become_these_numbers():
    dates = [f"2024-01-{i + 1:02d}" for i in TWENTY]
    found = encoder_of(
        {
            "city": ["a", "b"] * 10,
            "n": [*(i * i for i in range(19)), None],
            "d": dates,
            "v": ["yes", "no"] * 10,
        }
    )
    NEW = [f"city#{i}" for i in range(4)]  # for values to come
    assert found.feature_names == [
        "city=a", "city=b", *NEW, "n", "n is missing", "d in days", "d weekday sin", "d weekday cos", "v",
    ]  # fmt: skip
    row = found.of_mapping({"city": "b", "n": "3", "d": "2024-01-08", "v": "YES"})
    angle = 2 * math.pi * 4 / 7  # a Monday, counted from the Thursday of 1 January 1970
    assert row == pytest.approx([0, 1, 0, 0, 0, 0, 3, 0, 7, math.sin(angle), math.cos(angle), 1])
    unknown = found.of_mapping({"city": "c", "n": None, "v": "no"})
    np.testing.assert_array_equal(
        unknown[:2] + unknown[6:], [0, 0, np.nan, 1, np.nan, np.nan, np.nan, 0]
    )
    assert np.abs(unknown[2:6]).sum() == 1


def test_an_encoder_goes_to_json_and_back():
    columns = {name.replace(" ", "_"): cells[:20] for name, (cells, _) in KINDS.items()}
    found = encoder_of(columns, text="note")
    again = TableEncoder.from_json(json.loads(json.dumps(found.to_json())))
    assert again == found
    assert again.feature_names == found.feature_names
    damaged = found.to_json()
    damaged["columns"][0]["kind"] = "magic"
    with pytest.raises(InputError, match="magic"):
        TableEncoder.from_json(damaged)


def test_all_problems_are_reported_at_once():
    columns = {
        "age": [*(i * i for i in range(19)), "old"],
        "when": [*(f"2024-01-{i + 1:02d}" for i in range(19)), "soon"],
        "size": [*(i + 0.5 for i in range(18)), "inf", "1e999"],
        "list": [*(i % 3 for i in range(19)), [1]],
    }
    with pytest.raises(InputError) as caught:
        encoder_of(columns)
    said = str(caught.value)
    assert said.startswith("5 problems:")
    for words in (
        "source, row 19, column 'age': 'old' is not a number; write a finite number, leave the cell empty, or drop",
        "source, row 19, column 'when': 'soon' is not a date as in the other rows; write it as 2024-01-31",
        "source, row 18, column 'size': 'inf' is not a number",
        "source, row 19, column 'size': '1e999' is not a number",
        "source, row 19, column 'list': 'list' is not one value",
    ):
        assert words in said


def test_a_table_of_nothing_that_can_be_used_is_refused():
    with pytest.raises(
        InputError, match=r"can be used: a \(constant\), b \(all different\); --column keep=NAME"
    ):
        encoder_of({"a": [1] * 20, "b": [f"x{i}" for i in TWENTY]})
    with pytest.raises(InputError, match="no column is both in a source and in the target"):
        encoder_of({"a": [0.5, 1.7, 2]}, {"b": [0.5, 1.7, 2]})
