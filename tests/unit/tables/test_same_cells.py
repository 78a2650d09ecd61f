"""A value is the same value whichever way it came: CSV, JSON, pandas, NumPy."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from hedgerow import Domain, InputError, OnlineTransferClassifier
from hedgerow.data import read


def write(path, codes):
    rows = [f"{code},{i % 7 + 0.5},{'xy'[i % 2]}" for i, code in enumerate(codes * 20)]
    path.write_text("\n".join(["code,size,kind", *rows]))
    return read(path, label="kind")


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (["007", "8"], ["007", "x12"]),
        (["3.0", "4.0"], ["3.0", "B"]),
        (["1.50", "2.5"], ["1.50", "B"]),
    ],
    ids=["leading zeros", "whole floats", "trailing zeros"],
)
def test_a_code_is_one_category_though_a_source_has_numbers_only(tmp_path, numbers, words):
    """The cells of the first file can all be numbers, so they were read as such; those of the second are text."""
    sources = [write(tmp_path / "a.csv", numbers), write(tmp_path / "b.csv", words)]
    with pytest.raises(InputError, match=r"'code' is a number in a, text in b .*entity=code"):
        OnlineTransferClassifier("pa").fit_domains(sources)
    clf = OnlineTransferClassifier("pa", table={"entity": "code"}).fit_domains(sources)
    column = clf.table_.used[0]
    assert len(column.values) == 3
    written = numbers[0]
    value = json.loads(json.dumps(float(numbers[0])))
    assert sum(column(written)) == 1
    for other in (value, np.float32(value), f" {written} "):
        assert column(other) == column(written)


def test_long_codes_are_not_rounded(tmp_path):
    words = ["12345678901234567891", "12345678901234567892", "x"]
    clf = OnlineTransferClassifier("pa").fit_domains([write(tmp_path / "a.csv", words)])
    assert len(clf.table_.used[0].values) == 3


def test_true_of_json_is_true_of_csv():
    table = pd.DataFrame({"c": ["True", "False", "unknown"] * 10})
    clf = OnlineTransferClassifier("pa").fit_domains([Domain("a", table, ["x", "y", "x"] * 10)])
    for written, value in (("True", True), ("False", False), ("True", np.True_), ("TRUE", "true")):
        np.testing.assert_array_equal(clf.as_row({"c": value}), clf.as_row({"c": written}))
        assert clf.as_row({"c": value}).sum() == 1


def test_cells_of_numpy_are_those_of_python():
    n = 40
    table = pd.DataFrame(
        {
            "vip": ["yes", "no"] * 20,
            "code": ["3", "B"] * 20,
            "when": pd.date_range("2024-01-01", periods=n, freq="7h"),
            "size": np.arange(n) % 5 + 0.5,
        }
    )
    clf = OnlineTransferClassifier("pa").fit_domains([Domain("a", table, ["x", "y"] * 20)])
    plain = {"vip": True, "code": 3, "when": "2024-01-08T00:00", "size": 2.5}
    for unit in ("ns", "us", "s", "D"):
        given = {
            "vip": np.True_, "code": np.float32(3), "when": np.datetime64("2024-01-08", unit), "size": np.float32(2.5)
        }  # fmt: skip
        np.testing.assert_array_equal(clf.as_row(given), clf.as_row(plain))
        np.testing.assert_array_equal(clf.as_matrix([given]), clf.as_matrix([plain]))
        columns = {name: np.array([value, None], dtype=object)[:1] for name, value in given.items()}
        np.testing.assert_array_equal(clf.as_matrix(pd.DataFrame(columns)), clf.as_matrix([plain]))
    np.testing.assert_array_equal(clf.as_row({**plain, "vip": np.int64(1)}), clf.as_row(plain))
    np.testing.assert_array_equal(
        clf.as_row({**plain, "when": np.datetime64("NaT")}), clf.as_row({**plain, "when": None})
    )


def test_true_and_false_of_a_data_frame_are_those_of_a_csv(tmp_path):
    table = pd.DataFrame(
        {"vip": [True, False] * 20, "city": ["Oslo", "Bergen", "Oslo", "Oslo"] * 10}
    )
    clf = OnlineTransferClassifier("hedgerow-linear").fit_domains(
        [Domain("a", table, ["x", "y"] * 20)]
    )
    table.to_csv(tmp_path / "table.csv", index=False)
    np.testing.assert_array_equal(
        clf.as_matrix(read(tmp_path / "table.csv").X), clf.as_matrix(table)
    )
