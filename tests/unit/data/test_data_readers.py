import gzip
import json
import time
from decimal import Decimal

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hedgerow.core.errors import InputError
from hedgerow.data import read


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


# ---- text tables


def test_csv_keeps_names_integers_and_text(write):
    domain = read(write("shop.csv", "\ufeffa,kind, b\n1,mug,2.5\n\n-3e2,bike,4\n"), label="kind")
    assert (domain.name, domain.feature_names) == ("shop", ("a", "b"))
    assert domain.X.tolist() == [[1, 2.5], [-300, 4]]
    assert domain.y.tolist() == ["mug", "bike"]
    whole = read(write("t.tsv", "x\ty\n1\t3\n2\t4\n"), label="y", name="other")
    assert whole.name == "other"
    assert whole.y.dtype == np.int64
    assert read(write("u.csv", "x,y\n1,3\n")).y is None


def test_labels_that_pandas_would_take_for_missing_are_kept(write):
    assert read(write("t.csv", "x,y\n1,NA\n2,None\n"), label="y").y.tolist() == ["NA", "None"]


def test_an_empty_label_is_a_missing_one(write):
    assert read(write("t.csv", "x,y\n1,a\n2,\n"), label="y").y.tolist() == ["a", None]
    assert np.isnan(read(write("t.csv", "x,y\n1,0.5\n2,\n"), label="y").y[1])


BAD_TEXT = {
    "ragged": ("a,b\n1,2\n1,2,3\n", r"line 3: 3 fields, the header has 2"),
    "no header": ("1,2\n3,4\n", r"must name the columns"),
    "blank": ("\n\n", r"no header"),
    "header only": ("a,b\n", r"no rows"),
    "twice": ("a,a\n1,2\n", r"header: more than one column of the name \['a'\]"),
    "open quote": ('a,b\n1,"2\n3,4\n', r"line 2: a quote is opened and not closed"),
}


@pytest.mark.parametrize(("text", "message"), BAD_TEXT.values(), ids=BAD_TEXT.keys())
def test_bad_text_is_named_by_line_and_column(write, text, message):
    path = write("bad.csv", text)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_an_open_quote_in_a_long_file_is_named_where_it_is(write):
    rows = ["1,2\n"] * 500
    rows[300] = '1,"2\n'
    with pytest.raises(
        InputError, match="line 302: a quote is opened and not closed within 50 lines"
    ):
        read(write("t.csv", "a,b\n" + "".join(rows)))


def test_a_file_of_many_columns_is_read_in_linear_time(write):
    def seconds(width):
        names = ",".join(f"column {i}" for i in range(width))
        path = write("wide.csv", f"{names}\n{','.join(['1'] * width)}\n")
        began = time.process_time()
        assert read(path).X.shape == (1, width)
        return time.process_time() - began

    small, large = (min(seconds(width) for _ in range(5)) for width in (2_000, 40_000))
    assert large < 100 * small  # about 20 times; 400 if every name looks at every other


def test_unknown_label_column(write):
    path = write("t.csv", "weight,kind\n1,a\n")
    with pytest.raises(
        InputError,
        match=r"label column of t.csv 'kinds'; did you mean 'kind'\? Known: kind, weight",
    ):
        read(path, label="kinds")
    with pytest.raises(InputError, match="no column but the label"):
        read(write("u.csv", "kind\na\n"), label="kind")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,b\n1,mug\n1,\x81\n", "line 3: the label is not UTF-8"),
        (b"a,b\n1,mug\n\x81,pan\n", "line 3, column 'a' is not UTF-8"),
        (b"a,\x81\n1,mug\n", "the header is not UTF-8"),
        ("a,b\n1,é\n1,ü".encode() + b"\xe9\n", "line 3: the label is not UTF-8.*--encoding cp1252"),
    ],
)
def test_neither_utf8_nor_cp1252(tmp_path, content, words):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InputError, match=words):
        read(tmp_path / "t.csv", label="b" if b"b" in content else None)


@given(
    hnp.arrays(
        np.float64, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.floats(-1e100, 1e100)
    )
)
def test_a_csv_of_reprs_comes_back_bit_for_bit(tmp_path_factory, X):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    header = ",".join(f"f{i}" for i in range(X.shape[1]))
    path.write_text("\n".join([header, *(",".join(map(repr, row)) for row in X.tolist())]))
    assert np.array_equal(read(path).X, X)


# ---- Parquet


def test_parquet(tmp_path):
    table = pa.table(
        {"a": [1, 2], "b": [True, False], "kind": pa.array(["x", "y"]).dictionary_encode()}
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    domain = read(tmp_path / "t.parquet", label="kind")
    assert domain.X.tolist() == [[1, 1], [2, 0]]
    assert domain.y.tolist() == ["x", "y"]
    assert domain.feature_names == ("a", "b")


def test_parquet_keeps_float32_and_whole_labels(tmp_path):
    table = pa.table({"a": pa.array([1.5, 2], pa.float32()), "y": pa.array([3, None], pa.int8())})
    parquet.write_table(table, tmp_path / "t.pq")
    domain = read(tmp_path / "t.pq", label="y")
    assert domain.X.dtype == np.float32
    assert domain.y.tolist() == [3, None]
    parquet.write_table(table.slice(0, 1), tmp_path / "t.pq")
    assert read(tmp_path / "t.pq", label="y").y.dtype == np.int64


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": pa.array([], pa.string())}, r"no rows"),
        ({"a": pa.array([], pa.float64())}, r"no rows"),
    ],
)
def test_bad_parquet(tmp_path, columns, message):
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=message):
        read(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"did you mean 'a'\?"):
        read(tmp_path / "t.parquet", label="aa")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([{"b": 1}, {"b": 2}]),
        pa.array([[1.0], [2.0, 3.0]]),
        pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
    ],
    ids=["struct", "list", "map"],
)
def test_a_column_of_several_values_a_row_is_refused_by_name(tmp_path, column):
    parquet.write_table(pa.table({"a": [1, 2], "c": column}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"column 'c' holds .*drop it \(--column drop=c\)"):
        read(tmp_path / "t.parquet")


def test_decimals_are_numbers(tmp_path):
    prices = pa.array([Decimal("1.25"), Decimal("-3.50")], pa.decimal128(9, 2))
    parquet.write_table(pa.table({"a": prices, "b": [1.0, 2.0]}), tmp_path / "t.parquet")
    assert np.asarray(read(tmp_path / "t.parquet").X).tolist() == [[1.25, 1], [-3.5, 2]]


def test_a_typed_table_may_have_numbers_for_names(tmp_path):
    parquet.write_table(pa.table({"0": [1.5], "1": [2.5]}), tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").feature_names == ("0", "1")


# ---- every format of streams, folders, patterns


def table_in(folder, suffix, table):
    """A table as a file of that suffix."""
    path = folder / f"t{suffix}"
    inner = suffix.removesuffix(".gz")
    if inner == ".parquet":
        parquet.write_table(table, path)
    elif inner in (".arrow", ".arrows", ".ipc", ".feather"):
        with (pa.ipc.new_stream if inner in (".ipc", ".arrows") else pa.ipc.new_file)(
            str(path), table.schema
        ) as out:
            out.write_table(table)
    else:
        rows = [table.column_names, *([str(v) for v in row.values()] for row in table.to_pylist())]
        mark = "\t" if inner == ".tsv" else ","
        text = "".join(mark.join(row) + "\n" for row in rows)
        if inner == ".jsonl":
            text = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
        path.write_bytes(gzip.compress(text.encode()) if suffix.endswith(".gz") else text.encode())
    return path


TEXTS = [inner + packed for inner in (".csv", ".tsv", ".jsonl") for packed in ("", ".gz")]


@pytest.mark.parametrize("suffix", [*TEXTS, ".parquet", ".arrow", ".arrows", ".feather", ".ipc"])
def test_a_table_is_the_same_domain_in_every_format(tmp_path, suffix):
    table = pa.table({"a": [1.5, -2.0, 3.25], "kind": [3, 1, 3], "b": [1, 2, 3]})
    domain = read(table_in(tmp_path, suffix, table), label="kind")
    assert (domain.name, domain.feature_names) == ("t", ("a", "b"))
    assert domain.X.tolist() == [[1.5, 1], [-2, 2], [3.25, 3]]
    assert domain.y.tolist() == [3, 1, 3]
    assert domain.y.dtype == np.int64


def test_a_folder_and_a_pattern_are_one_domain(write, tmp_path):
    (tmp_path / "site").mkdir()
    write("site/day-1.csv", "a,b,kind\n1,2,1\n3,4,\n")
    write("site/day-2.csv", "kind,b,a\n2,6,5\n")
    for place in ("site", "site/", "site/*.csv", "site/day-?.csv"):
        domain = read(f"{tmp_path}/{place}", label="kind")
        assert domain.X.tolist() == [[1, 2], [3, 4], [5, 6]]
        assert domain.y.tolist() == [1, None, 2]
        assert domain.name == ("day" if "day" in place else "site")
    write("site/day-3.csv", "kind,b,c\n2,6,5\n")
    with pytest.raises(
        InputError,
        match=r"day-3.csv: other features than those of .*day-1.csv: missing \['a'\], unexpected \['c'\]",
    ):
        read(tmp_path / "site", label="kind")
    write("site/day-3.csv", "b,a\n6,5\n")
    with pytest.raises(InputError, match=r"unknown label column of day-3.csv 'kind'"):
        read(tmp_path / "site", label="kind")
    write("site/day-3.csv", "b,a,kind\n6,5,1\nx,1,1\n")
    domain = read(tmp_path / "site", label="kind")
    assert domain.X.column("b").tolist() == ["2", "4", "6", "6", "x"]
    assert domain.X.lines.tolist() == [2, 3, 2, 2, 3]
    write("site/day-3.csv", "")
    with pytest.raises(InputError, match=r"day-3.csv: the file is empty"):
        read(tmp_path / "site", label="kind")


def test_a_name_with_marks_of_a_pattern_is_a_name(write):
    assert read(write("day[1].csv", "a\n1\n")).name == "day[1]"


BAD_JSON = {
    "no JSON": ('{"a": 1, "b": 2}\n{"a": 1\n', r"line 2: not JSON"),
    "no object": ("[1, 2]\n", r"the first line is not a JSON object"),
    "blank": ("\n\n", r"the first line is not a JSON object"),
}


@pytest.mark.parametrize(("text", "message"), BAD_JSON.values(), ids=BAD_JSON.keys())
def test_bad_json_is_named_by_line_and_column(write, text, message):
    path = write("bad.jsonl", text)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert str(caught.value).count(str(path)) == 1


def test_labels_of_json_are_as_they_are_written(write):
    assert read(
        write("t.jsonl", '{"a": 1, "y": "1"}\n{"a": 1, "y": "x"}\n'), label="y"
    ).y.tolist() == ["1", "x"]
    assert read(
        write("t.jsonl", '{"a": 1, "y": 2}\n{"a": 1, "y": null}\n{"a": 1}\n'), label="y"
    ).y.tolist() == [
        2,
        None,
        None,
    ]
    with pytest.raises(InputError, match="line 1: the label is a list"):
        read(write("t.jsonl", '{"a": 1, "y": []}\n'), label="y")


@pytest.mark.parametrize("suffix", [".csv.gz", ".parquet", ".arrow", ".ipc"])
def test_a_damaged_file_is_named_with_what_to_do(tmp_path, suffix):
    table = pa.table({"a": np.random.default_rng(0).normal(size=5000)})
    path = table_in(tmp_path, suffix, table)
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(InputError, match="make it again") as caught:
        read(path)
    assert str(caught.value).count(str(path)) == 1


# ---- MATLAB


def test_matlab_of_both_versions(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    y = np.array([1, 2, 1])
    scipy.io.savemat(tmp_path / "five.mat", {"X": X, "kind": y[:, None], "y": 3 - y})
    with h5py.File(tmp_path / "seven.mat", "w", userblock_size=512) as file:
        file["X"], file["y"], file["kind"] = X.T, 3 - y[None].astype(float), y[None]
    for name in ("five", "seven"):
        domain = read(tmp_path / f"{name}.mat")
        assert np.array_equal(domain.X, X)
        assert domain.y.tolist() == [2, 1, 2]
        assert domain.y.dtype == np.int64
        assert read(tmp_path / f"{name}.mat", label="kind").y.tolist() == [1, 2, 1]
        with pytest.raises(
            InputError, match=r"unknown variable of \w+.mat 'kin'; did you mean 'kind'\?"
        ):
            read(tmp_path / f"{name}.mat", label="kin")


def test_matlab_sparse_and_hopeless(tmp_path):
    scipy.io.savemat(tmp_path / "t.mat", {"X": sp.csc_array(np.eye(3))})
    assert read(tmp_path / "t.mat").X.format == "csr"
    scipy.io.savemat(tmp_path / "t.mat", {"A": np.eye(3)})
    with pytest.raises(
        InputError, match="no variable X, fts, fea, data with the features; it holds A"
    ):
        read(tmp_path / "t.mat")
    (tmp_path / "t.mat").write_bytes(b"no MATLAB here" * 50)
    with pytest.raises(InputError, match="not a readable MATLAB file"):
        read(tmp_path / "t.mat")


# ---- the door


def test_missing_empty_unknown(write, tmp_path):
    write("there.csv", "a\n1\n")
    with pytest.raises(InputError, match=r"no such file; .* holds there.csv"):
        read(tmp_path / "their.csv")
    with pytest.raises(InputError, match="no folder"):
        read(tmp_path / "nowhere" / "t.csv")
    for suffix in ("csv", "parquet", "mat"):
        with pytest.raises(InputError, match="the file is empty"):
            read(write(f"t.{suffix}", ""))
    with pytest.raises(InputError, match=r"unknown suffix '.xlsx'; files can be .csv, .tsv"):
        read(write("t.xlsx", "?"))
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(
        InputError, match=r"d.csv: no file of a known format in this folder .*it is empty"
    ):
        read(tmp_path / "d.csv")
