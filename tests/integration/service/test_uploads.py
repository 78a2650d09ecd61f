"""Models that are sent: sound ones go live, others are refused before they touch anything."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load, save
from support.serving import fitted

from hedgerow import OnlineTransferClassifier
from hedgerow.core.errors import InputError
from hedgerow.files import DIGEST, NO_DIGEST
from hedgerow.methods import METHODS
from hedgerow.service.check import check


def put(service, name, content):
    return service.http.put(f"/v1/models/{name}", content=content)


def test_a_model_goes_up_answers_and_goes_away(shared, clf):
    answer = put(shared, "sent", clf.to_bytes())
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == "/v1/models/sent"
    assert (
        shared.http.post("/v1/models/sent/predict", json={"instances": [[1, 2, 3]]}).status_code
        == 200
    )
    again = put(shared, "sent", clf.to_bytes())
    assert (again.status_code, again.json()["type"]) == (409, "/problems/taken")
    assert shared.http.delete("/v1/models/sent", params={"confirm": "sent"}).status_code == 204
    assert shared.http.get("/v1/models/sent").status_code == 404
    assert put(shared, "sent", b"").status_code == 422  # the name is free again


def resealed(data, change):
    """A model file with something changed and a digest that is right again."""
    import hashlib

    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    header = json.loads(metadata["hedgerow"])
    arrays = load(data)
    change(header, arrays)
    made = bytearray(save(arrays, metadata={"digest": NO_DIGEST, "hedgerow": json.dumps(header)}))
    at = made.index(DIGEST + NO_DIGEST.encode()) + len(DIGEST)
    made[at : at + 64] = hashlib.sha256(made).hexdigest().encode()
    return bytes(made)


def make_infinite(header, arrays):
    name = next(name for name, array in arrays.items() if array.dtype.kind == "f" and array.size)
    arrays[name] = np.full_like(arrays[name], np.inf)


def other_shape(header, arrays):
    name = next(iter(arrays))
    arrays[name] = np.zeros((2, 2, 2))


def no_plan(header, arrays):
    header["plan"] = {"steps": "everything"}


SEEN_AT_ONCE = {
    "nothing": lambda data: b"",
    "text": lambda data: b"#!/bin/sh\nrm -rf /\n",
    "pickle": lambda data: b"\x80\x04\x95" + b"c" * 100,
    "huge header": lambda data: (2**62).to_bytes(8, "little") + data[8:],
    "another safetensors": lambda data: save({"a": np.zeros(3)}),
    "deep header": lambda data: (60_000).to_bytes(8, "little") + b"[" * 60_000,
}
SEEN_BY_THE_CHECK = {
    "half": lambda data: data[: len(data) // 2],
    "one bit": lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
    "shape": lambda data: resealed(data, other_shape),
    "plan": lambda data: resealed(data, no_plan),
    "infinite": lambda data: resealed(data, make_infinite),
}


@pytest.mark.parametrize("what", [*SEEN_AT_ONCE, "infinite"])
def test_what_is_no_sound_model_is_refused(shared, clf, what):
    answer = put(shared, "hostile", {**SEEN_AT_ONCE, **SEEN_BY_THE_CHECK}[what](clf.to_bytes()))
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid"), answer.text
    assert shared.http.get("/v1/models/hostile").status_code == 404
    assert str(shared.models) not in answer.text
    assert not (shared.models / "hostile").exists()
    assert not [path for work in shared.models.glob(".work*") for path in work.iterdir()]


@pytest.mark.parametrize("what", SEEN_BY_THE_CHECK)
def test_the_check_refuses_what_it_finds(clf, tmp_path, what):
    file = tmp_path / "model"
    file.write_bytes(SEEN_BY_THE_CHECK[what](clf.to_bytes()))
    with pytest.raises(InputError, match="the file"):
        check(file)


def test_a_class_whose_name_is_too_long_is_refused(tmp_path):
    file = tmp_path / "model"
    y = np.array(["up", "x" * 201] * 10)
    OnlineTransferClassifier("pa").fit(np.random.default_rng(0).normal(size=(20, 2)), y).save(file)
    with pytest.raises(InputError, match="a class of 201 characters"):
        check(file)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_passes_the_check(method, tmp_path):
    file = tmp_path / "model"
    fitted(method=method).save(file)
    check(file)
