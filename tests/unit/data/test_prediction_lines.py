"""Lines that are written a block at a time are JSON, a record a row, with every probability as Python writes it."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.run.report import prediction_lines

CLASSES = st.sampled_from(
    [
        [0, 1],
        ["mug", "pan", 'a "q"\\\n', "\u00e9\u2603"],
        [0.5, 1e-7, 3.0],
        [True, False],
        [("a", 1), ("b", 2)],
        ["1", 1],
    ]
)


@st.composite
def blocks(draw):
    classes = draw(CLASSES)
    n = draw(st.integers(1, 8))
    part = (
        st.floats(0, 1)
        | st.integers(0, 10**6).map(lambda k: k / 1e6)
        | st.integers(0, 10**6).map(lambda k: k / 1e6 + 5e-7)
    )
    P = np.array([[min(draw(part), 1.0) for _ in classes] for _ in range(n)])
    labels = draw(
        st.none() | st.lists(st.sampled_from([*classes, None, classes[0]]), min_size=n, max_size=n)
    )
    ids = draw(
        st.none()
        | st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=n, max_size=n)
    )
    codes = draw(st.lists(st.integers(0, len(classes) - 1), min_size=n, max_size=n))
    return (
        np.arange(1, n + 1),
        np.arange(n) * 3 + 2,
        codes,
        classes,
        P,
        labels,
        ids,
        draw(st.booleans()),
    )


@given(blocks())
def test_blocks_of_lines_are_those_of_json(block):
    rows, lines, codes, classes, P, labels, ids, proba = block
    expected = []
    for i, code in enumerate(codes):
        p = dict(zip(classes, P[i].tolist(), strict=True))
        record = {} if ids is None else {"id": ids[i]}
        record |= {"row": int(rows[i]), "line": int(lines[i]), "prediction": classes[code]}
        record["probability"] = float(np.round(P[i][code], 6))
        if proba:
            record["probabilities"] = {
                str(label): float(np.round(value, 6)) for label, value in p.items()
            }
        if labels is not None and labels[i] is not None:
            record |= {"label": labels[i], "correct": bool(classes[code] == labels[i])}
        expected.append(json.loads(json.dumps(record, default=str)))
    found = prediction_lines(rows, lines, codes, classes, P, labels=labels, ids=ids, proba=proba)
    assert [json.loads(line) for line in found.decode().removesuffix("\n").split("\n")] == expected


def test_every_probability_that_can_be_written():
    P = np.arange(0, 1_000_001)[:, None] / 1e6
    n = len(P)
    text = prediction_lines(np.ones(n), np.ones(n), np.zeros(n, int), ["a"], P).decode()
    found = (line[:-1].rpartition(":")[2] for line in text.splitlines())
    assert list(map(float, found)) == P[:, 0].tolist()


@pytest.mark.parametrize("value", [-0.5, 1.5, -0.0])
def test_what_is_no_probability_is_still_written(value):
    text = prediction_lines([1], [2], [0], ["a"], np.array([[value]]))
    assert json.loads(text)["probability"] == value


def test_what_is_not_finite_is_null_as_in_json():
    text = prediction_lines([1], [2], [0], ["a"], np.array([[float("nan")]]), proba=True)
    found = json.loads(text)
    assert found["probability"] is None
    assert found["probabilities"] == {"a": None}


def test_nothing_is_nothing():
    assert prediction_lines([], [], [], ["a"], np.empty((0, 1))) == b""


def test_a_block_of_lines_is_written_faster_than_by_json():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(10), size=8192)
    rows = np.arange(8192)
    codes = P.argmax(axis=1)
    labels = rng.integers(0, 10, 8192).tolist()

    def seconds(write):
        began = time.process_time()
        write()
        return time.process_time() - began

    def by_json():
        for i, code in enumerate(codes.tolist()):
            record = {
                "row": i,
                "line": i,
                "prediction": code,
                "probability": round(float(P[i, code]), 6),
            }
            json.dumps(
                record | {"label": labels[i], "correct": code == labels[i]}, ensure_ascii=False
            )

    def by_block():
        prediction_lines(rows, rows, codes, list(range(10)), P, labels=labels)

    fast, slow = (min(seconds(write) for _ in range(5)) for write in (by_block, by_json))
    assert fast < slow / 2  # about a quarter
