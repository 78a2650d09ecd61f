"""What a row says about the predictions of a run: mistakes along the stream, calibration, who was taken for whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.evaluate.calibration import Reliability, brier, log_loss
from hedgerow.evaluate.folds import Row
from hedgerow.experiment.prequential import evenly

FIRST = 50  # labelled instances that count as the start of a stream


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of a stream, each made before its label: places in a table of all classes, and probabilities.

    `p` has a column for each class of the table; `codes` are those of the labels, -1 where a label is missing.
    `said` is -1 where a model had nothing to say yet, which is a mistake.
    """

    said: Array
    p: Array
    codes: Array
    seconds: float


def measured(found: Predicted, classes: list[Any]) -> Row:
    """The part of a row that every model has, ours or not."""
    known = found.codes >= 0
    wrong = (found.said != found.codes) & known
    at = np.array(evenly(len(wrong)))
    p, codes = found.p[known], found.codes[known]
    bins = Reliability.of(p, codes)
    first = np.flatnonzero(known)[:FIRST]
    return {
        "mistakes": int(wrong.sum()),
        "n": int(known.sum()),
        "first_mistakes": int(wrong[first].sum()),
        "first_n": len(first),
        "instances": at,
        "labels": np.cumsum(known)[at - 1],
        "curve": np.cumsum(wrong)[at - 1],
        "brier": brier(p, codes),
        "log_loss": log_loss(p, codes),
        "bins": {name: getattr(bins, name).tolist() for name in ("count", "confidence", "right")},
        "classes": classes,
        "confusion": _confusion(codes, found.said[known]),
        "wrong": packed(wrong[known]),
        "seconds_online": found.seconds,
    }


def _confusion(codes: Array, said: Array) -> list[list[int]]:
    """Triples of class, prediction and how often; most pairs of many classes never occur."""
    pairs, counts = np.unique(np.column_stack([codes, said]), axis=0, return_counts=True)
    return [[*pair, count] for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True)]


def packed(wrong: Array) -> str:
    """Which labelled instances were mistakes, a bit each, as text.

    >>> packed(np.array([1, 0, 0, 0, 0, 0, 0, 1, 1], dtype=bool))
    '8180'
    """
    return np.packbits(np.asarray(wrong, dtype=bool)).tobytes().hex()


def unpacked(row: Row) -> Array:
    """The same from a row.

    >>> unpacked({"wrong": "8180", "n": 9}).astype(int).tolist()
    [1, 0, 0, 0, 0, 0, 0, 1, 1]
    """
    bits = np.frombuffer(bytes.fromhex(row["wrong"]), dtype=np.uint8)
    return np.unpackbits(bits)[: row["n"]].astype(bool)


def reliability(row: Row) -> Reliability:
    """The bins of a row."""
    return Reliability(**{name: np.array(values) for name, values in row["bins"].items()})
