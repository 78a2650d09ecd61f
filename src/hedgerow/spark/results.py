"""The rows that come out: predictions, what became of labels, and dead letters, in one stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

PREDICTION, LABEL, DEAD_LETTER = "prediction", "label", "dead letter"
NEW, REPEATED = "new", "repeated"


class Result(NamedTuple):
    """One row that comes out; the key stands before it.

    | kind          | label               | status                                    | right               | text   |
    |---------------|---------------------|-------------------------------------------|---------------------|--------|
    | `prediction`  | the predicted class | `new`, or `repeated`: the id came before  |                     |        |
    | `label`       | the label given     | as of a live model: `learned`, `already`, | was it predicted?   | reason |
    |               |                     | `conflict`, `given up`, `unknown`,        | (where learned)     |        |
    |               |                     | `refused`                                 |                     |        |
    | `dead letter` |                     |                                           |                     | reason |

    `probability` is that of the predicted class; `row` is what a dead letter brought, as JSON.
    """

    kind: str
    id: str | None
    label: Any = None
    probability: float | None = None
    status: str | None = None
    right: bool | None = None
    text: str | None = None
    row: str | None = None


def schema_of(key: str, label: str) -> str:
    """The columns of the results, for Spark."""
    return (
        f"key {key}, kind string, id string, label {label}, probability double, status string, right boolean, "
        "text string, row string"
    )


def frame_of(key: Any, results: Iterable[Result]) -> pd.DataFrame:
    """Results as Spark takes them."""
    import numpy as np
    import pandas as pd

    rows = [(key, *result) for result in results]
    table = np.empty((len(rows), 1 + len(Result._fields)), dtype=object)  # one block: a series a column costs more
    if rows:
        table[:] = rows
    return pd.DataFrame(table, columns=["key", *Result._fields], copy=False)


def predictions(results: DataFrame) -> DataFrame:
    """Of results, the predictions: key, id, label, probability, status."""
    return _only(results, PREDICTION).select("key", "id", "label", "probability", "status")


def outcomes(results: DataFrame) -> DataFrame:
    """Of results, what became of labels: key, id, label, status, right, text."""
    return _only(results, LABEL).select("key", "id", "label", "status", "right", "text")


def dead_letters(results: DataFrame) -> DataFrame:
    """Of results, the rows that could not be used: key, id, text (the reason), row (as JSON)."""
    return _only(results, DEAD_LETTER).select("key", "id", "text", "row")


def metrics(results: DataFrame) -> DataFrame:
    """A row a key: predictions, labels by status, mistakes among the labels learned. Of a batch, not of a stream."""
    from pyspark.sql import functions as F

    def count(condition: Any) -> Any:
        return F.count(F.when(condition, 1))

    kind, status = F.col("kind"), F.col("status")
    return results.groupBy("key").agg(
        count((kind == PREDICTION) & (status == NEW)).alias("predictions"),
        count(status == "learned").alias("learned"),
        count((status == "learned") & ~F.col("right")).alias("mistakes"),
        count((kind == LABEL) & (status != "learned")).alias("other_labels"),
        count(kind == DEAD_LETTER).alias("dead_letters"),
    )


def _only(results: DataFrame, kind: str) -> DataFrame:
    from pyspark.sql import functions as F

    return results.where(F.col("kind") == kind)
