"""Which files an input means, what is damaged, where a stream goes on, and pipes."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from support.row_inputs import WANTED, Slowly, as_table, blocks, write_all

from hedgerow.core.errors import InputError
from hedgerow.rows import Wanted, open_rows

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
    with pytest.raises(
        InputError, match=r"day-1.csv: column 'b' is missing.*the first file is .*day-0.csv"
    ):
        blocks(folder)
    with pytest.raises(
        InputError, match=r"day-1.csv: column 'b' is missing.*the first file is .*day-0.csv"
    ):
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
    path = tmp_path / "t.csv"
    other = tmp_path / "u.csv"
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


def test_an_input_that_is_shorter_now_is_refused(tmp_path):
    for path in write_all(tmp_path, as_table()):
        end = blocks(path)[-1][-1]
        write_all(tmp_path, as_table(20))
        with pytest.raises(InputError, match="shorter than before") as caught:
            blocks(path, start=end)
        assert str(caught.value).startswith(f"{path}: ")
        write_all(tmp_path, as_table())


def test_text_is_read_without_pyarrow(tmp_path):
    """In a process of its own, in which pyarrow cannot be imported."""
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b,y,id\n1,2,0,u\n3,4,1,v\n"))
    (tmp_path / "t.jsonl").write_text(
        '{"a": 1, "b": 2, "y": 0, "id": "u"}\n{"a": 3, "b": 4, "y": 1, "id": "v"}\n'
    )
    script = """if True:
        import sys
        sys.modules["pyarrow"] = sys.modules["orjson"] = None
        from hedgerow.data import read
        from hedgerow.run.report import prediction_lines
        from hedgerow.rows import Wanted, open_rows
        wanted = Wanted(2, ["a", "b"], "y", [0, 1], id="id")
        for name in ("t.csv.gz", "t.jsonl"):
            [block] = open_rows(f"{sys.argv[1]}/{name}", wanted)
            print(block.X.tolist(), block.labels, block.ids)
        print(read(f"{sys.argv[1]}/t.jsonl", label="id").y.tolist())
        print(prediction_lines([1], [2], [0], ["p"], [[1.0]]))
        try:
            open_rows(f"{sys.argv[1]}/t.parquet", wanted)
        except ImportError as error:
            print(error)
    """
    (tmp_path / "t.parquet").write_bytes(b"?")
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True
    )
    rows = "[[1.0, 2.0], [3.0, 4.0]] [0, 1] ['u', 'v']"
    line = b'{"row":1,"line":2,"prediction":"p","probability":1.0}\n'
    missing = "'pyarrow' is needed here and not installed: pip install 'hedgerow[files]'"
    assert done.stdout.splitlines() == [rows, rows, "['u', 'v']", str(line), missing]


def test_reading_and_writing_does_not_import_pandas(tmp_path):
    write_all(tmp_path, as_table())
    script = """if True:
        import sys
        from hedgerow.run.report import prediction_lines
        from hedgerow.rows import Wanted, open_rows
        for name in ("t.csv", "t.jsonl", "t.parquet", "t.arrow"):
            for block in open_rows(f"{sys.argv[1]}/{name}", Wanted(2, ["a", "b"], "y", [0, 1, 2], id="id")):
                prediction_lines(block.rows, block.lines, block.rows * 0, ["p"], abs(block.X[:, :1] * 0 + .5),
                                 labels=["p"] * len(block.rows), ids=block.ids, proba=True)
        print("pyarrow" in sys.modules, "pandas" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True False\n"


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


def test_a_pipe_cannot_go_on_where_it_was():
    text = b"a,b,y,id\n1,2,0,u\n3,4,0,v\n"
    first = next(iter(open_rows("-", WANTED, descriptor=Slowly(text, [20]), size=1)))
    with pytest.raises(InputError, match="a pipe cannot go on where it was"):
        open_rows("-", WANTED, descriptor=Slowly(text, [20]), size=1, start=first.end)


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
