"""Files, tables and arrays as domains; the order in time; what cannot be compared is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow import Domain, InputError
from hedgerow.comparison.inputs import task_of
from hedgerow.core.errors import HedgerowError

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(30, 3)), np.array(list("uvw") * 10)
SOURCE = Domain("s", X, Y, feature_names=("a", "b", "c"))


def frame(**more):
    import pandas as pd

    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y, **more)


def test_tables_of_every_kind_give_the_same_task(tmp_path):
    import polars as pl
    import pyarrow as pa

    table = frame()
    table.to_csv(tmp_path / "s.csv", index=False)
    table.to_parquet(tmp_path / "s.parquet")
    given = [table, pl.from_pandas(table), pa.Table.from_pandas(table), tmp_path / "s.csv", str(tmp_path / "s.parquet")]
    for each in given:
        task = task_of({"s": each}, each, label="y", unlabelled=each)
        for domain in (task.sources[0], task.stream):
            assert np.allclose(domain.X, X)
            assert domain.y.tolist() == Y.tolist()
            assert tuple(domain.feature_names) == ("a", "b", "c")
        assert task.warmup.y is None
        assert task.sources[0].name == "s"


def test_the_order_of_the_file_is_kept_and_the_warm_up_is_its_beginning():
    task = task_of([SOURCE], SOURCE, warmup=0.3)
    assert np.array_equal(task.warmup.X, X[:9])
    assert np.array_equal(task.stream.X, X[9:])


@pytest.mark.parametrize("kind", ["number", "date", "datetime64"])
def test_a_time_column_sorts_the_stream_and_is_no_feature(tmp_path, kind):
    import pandas as pd

    order = rng.permutation(30)
    when = pd.Timestamp("2024-02-20") + pd.to_timedelta(order, unit="D")
    times = {"number": 9.5 + order, "date": when.strftime("%Y-%m-%d"), "datetime64": when}[kind]
    table = frame(t=times)
    stream = table
    if kind != "datetime64":
        stream = tmp_path / "stream.csv"
        table.to_csv(stream, index=False)
        table.to_csv(tmp_path / "u.csv", index=False)
    task = task_of([frame()], stream, label="y", time="t", warmup=0.2)
    sorted_rows = X[np.argsort(order)]
    assert np.allclose(task.warmup.X, sorted_rows[:6])
    assert np.allclose(task.stream.X, sorted_rows[6:])
    assert task.stream.y.tolist() == Y[np.argsort(order)][6:].tolist()
    assert tuple(task.stream.feature_names) == ("a", "b", "c")
    if kind != "datetime64":
        task = task_of([stream], stream, label="y", time="t", unlabelled=tmp_path / "u.csv")
        assert task.warmup.X.shape == (30, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sources": []}, "at least one labelled source"),
        ({"sources": [SOURCE, SOURCE]}, "two sources are named 's'"),
        ({"sources": [SOURCE.unlabelled()]}, "source 's' has no labels"),
        ({"stream": SOURCE.unlabelled()}, "stream 's' has no labels"),
        ({"stream": Domain("s", X, [None] * 30)}, "every label is missing"),
        ({"warmup": 0.3, "unlabelled": SOURCE}, "give one of them"),
        ({"warmup": 1.5}, r"warmup=1.5: .* must be in \[0, 1\)"),
        ({"time": "t"}, "unknown time column of the stream 't'"),
        ({"stream": (X, Y, Y)}, "a tuple of 3"),
        ({"stream": Domain("t", X[:, :2], Y)}, "domains of different width"),
        ({"stream": "nowhere.csv"}, "nowhere.csv"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, words):
    with pytest.raises(HedgerowError, match=words):
        task_of(**{"sources": [SOURCE], "stream": SOURCE, **arguments})


def test_a_time_that_is_none_is_named_with_its_row(tmp_path):
    path = tmp_path / "s.csv"
    frame(t=["2024-01-01"] * 29 + ["soon"]).to_csv(path, index=False)
    with pytest.raises(InputError, match=r"column 't': 'soon' in row 30 is no time; write numbers, or dates"):
        task_of([SOURCE], path, label="y", time="t")
