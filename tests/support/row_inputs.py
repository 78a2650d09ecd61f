"""Tables in every format, blocks that can be compared, and streams that come in parts."""

from __future__ import annotations

import gzip
import io
import json
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from hedgerow.rows import RowBlock, Wanted, open_rows, readers

WANTED = Wanted(2, ["a", "b"], "y", [0, 1, 2], new_classes=False, id="id")


@contextmanager
def line_by_line():
    """CSV by the csv module and JSON by the json module alone, as without pyarrow and orjson."""
    with (
        mock.patch.object(readers.CsvReader, "_parser", return_value=None),
        mock.patch.object(
            readers, "fast_loads", return_value=lambda line: json.loads(line.decode())
        ),
    ):
        yield


def plain(block: RowBlock) -> tuple:
    """A block as values that can be compared; bits of the features."""
    x = block.X.tobytes(), block.X.shape
    return (
        block.rows.tolist(),
        block.lines.tolist(),
        x,
        block.labels,
        block.ids,
        block.bad,
        block.late,
        block.end,
    )


def blocks(path, wanted=WANTED, **options) -> list[tuple]:
    with open_rows(str(path), wanted, **options) as source:
        return [plain(block) for block in source]


def as_table(n=50):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, n)
    return pa.table(
        {
            "id": [f"r{i}" for i in range(n)],
            "b": rng.normal(size=n),
            "y": y,
            "note": ["x"] * n,
            "a": np.arange(n),
        }
    )


def write_all(folder, table):
    """The same table in every format; the paths."""
    from pyarrow import csv, feather, ipc

    csv.write_csv(table, folder / "t.csv", csv.WriteOptions(quoting_style="none"))
    csv.write_csv(table, folder / "quoted.csv")
    csv.write_csv(table, folder / "t.tsv", csv.WriteOptions(delimiter="\t", quoting_style="none"))
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    for name in ("t.csv", "t.tsv", "t.jsonl"):
        text = (folder / name).read_bytes()
        (folder / f"{name}.gz").write_bytes(gzip.compress(text))
    parquet.write_table(table, folder / "t.parquet", row_group_size=7)
    with ipc.new_file(str(folder / "t.arrow"), table.schema) as out:
        out.write_table(table, max_chunksize=9)
    with ipc.new_stream(str(folder / "t.ipc"), table.schema) as out:
        out.write_table(table, max_chunksize=9)
    feather.write_feather(table, folder / "t.feather", compression="zstd")
    return sorted(path for path in folder.iterdir() if path.is_file())


class Slowly(io.RawIOBase):
    """Bytes that come in parts."""

    def __init__(self, data: bytes, parts: list[int]) -> None:
        self._data = data
        self._parts = parts
        self._turn = 0

    def read1(self, most: int) -> bytes:
        count = min(self._parts[self._turn % len(self._parts)], most)
        self._turn += 1
        part = self._data[:count]
        self._data = self._data[count:]
        return part
