"""The Open Inference Protocol, as clients of KServe and MLServer speak it."""

from __future__ import annotations

import json

import numpy as np
import pytest

URL = "/v2/models/site/infer"


def rows(data, shape=(2, 3), **extra):
    return {"inputs": [{"name": "x", "shape": list(shape), "datatype": "FP64", "data": data, **extra}]}


def outputs(answer):
    assert answer.status_code == 200, answer.text
    return {output["name"]: output for output in answer.json()["outputs"]}


def test_health_and_metadata(shared):
    assert shared.http.get("/v2").json()["name"] == "hedgerow"
    assert shared.http.get("/v2/health/live").json() == {"live": True}
    assert shared.http.get("/v2/health/ready").json() == {"ready": True}
    assert shared.http.get("/v2/models/site/ready").json() == {"name": "site", "ready": True}
    about = shared.http.get("/v2/models/site").json()
    assert [tensor["name"] for tensor in about["inputs"]] == ["width", "height", "depth"]
    assert {"name": "probabilities", "datatype": "FP64", "shape": [-1, 2]} in about["outputs"]
    bare = shared.http.get("/v2/models/bare").json()
    assert bare["inputs"] == [{"name": "instances", "datatype": "FP64", "shape": [-1, 3]}]


def test_nested_flat_and_by_column_are_the_same(shared):
    nested = outputs(shared.http.post(URL, json=rows([[1, 2, 3], [4, 5, 6]])))
    flat = outputs(shared.http.post(URL, json=rows([1, 2, 3, 4, 5, 6])))
    columns = [
        {"name": name, "shape": [2], "datatype": "INT32", "data": data}
        for name, data in (("depth", [3, 6]), ("width", [1, 4]), ("height", [2, 5]))
    ]
    by_name = outputs(shared.http.post(URL, json={"inputs": columns}))
    for name in ("label", "probabilities"):
        assert nested[name] == flat[name] == by_name[name]
    assert nested["label"]["datatype"] == "BYTES"
    assert nested["probabilities"]["shape"] == [2, 2]


def test_rows_are_events_by_the_id_of_the_request(shared):
    answer = shared.http.post(URL, json={"id": "call-1", **rows([1, 2, 3, 4, 5, 6])})
    assert answer.json()["id"] == "call-1"
    assert outputs(answer)["id"]["data"] == ["call-1/0", "call-1/1"]
    body = {"labels": [{"id": "call-1/1", "label": "up"}]}
    assert shared.http.post("/v1/models/site/label", json=body).json()["results"][0]["status"] == "learned"
    again = shared.http.post(URL, json={"id": "call-1", **rows([1, 2, 3, 4, 5, 6])})
    assert outputs(again)["probabilities"] == outputs(answer)["probabilities"]


def test_only_the_outputs_that_are_asked_for(shared):
    found = outputs(shared.http.post(URL, json={**rows([1, 2, 3, 4, 5, 6]), "outputs": [{"name": "label"}]}))
    assert list(found) == ["label"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "inputs"),
        ({"inputs": []}, "inputs"),
        ({"inputs": [7]}, "inputs[0]"),
        (rows([1, 2], (1, 2)), "inputs[0].data[0]"),
        (rows([1, 2, 3], (2, 3)), "inputs[0].data"),
        (rows([[1, 2, 3], [4, 5]]), "inputs[0].data"),
        (rows([1, 2, "x"], (1, 3)), "inputs[0].data[2]"),
        (rows([[1, 2, "x"]], (1, 3)), "inputs[0].data[0][2]"),
        (rows([], (0, 3)), "inputs[0].shape"),
        (rows([1], (1, 1, 1)), "inputs[0].shape"),
        (rows(["1", "2", "3"], (1, 3), datatype="BYTES"), "inputs[0].datatype"),
        ({"inputs": [{"name": "width", "shape": [1], "datatype": "FP64", "data": [1]}]}, "inputs"),
        ({**rows([1, 2, 3], (1, 3)), "outputs": [{"name": "gradient"}]}, "outputs[0].name"),
        ({**rows([1, 2, 3], (1, 3)), "id": ""}, "id"),
    ],
)
def test_what_cannot_be_used_is_named(shared, body, field):
    answer = shared.http.post(URL, json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field


def sent_as_bytes(shared, body, tail, length=None):
    text = json.dumps(body).encode()
    headers = {"Inference-Header-Content-Length": str(len(text) if length is None else length)}
    return shared.http.post(URL, content=text + tail, headers={**headers, "Content-Type": "application/octet-stream"})


def bytes_of(array, **extra):
    about = {"name": "x", "shape": list(array.shape), "datatype": {"f8": "FP64", "f4": "FP32"}[array.dtype.str[1:]]}
    return {**about, "parameters": {"binary_data_size": array.nbytes}, **extra}


@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
def test_tensors_as_bytes_are_the_same(shared, dtype):
    X = np.array([[1, 2, 3], [4, 5, 6]], dtype)
    there = outputs(sent_as_bytes(shared, {"inputs": [bytes_of(X)]}, X.tobytes()))
    assert there["probabilities"] == outputs(shared.http.post(URL, json=rows(X.tolist())))["probabilities"]
    columns = [bytes_of(X[:, i].copy(), name=name) for i, name in enumerate(("width", "height", "depth"))]
    by_name = outputs(sent_as_bytes(shared, {"inputs": columns}, X.T.tobytes()))
    assert by_name["probabilities"] == there["probabilities"]


ONE = np.array([[1.0, 2.0, 3.0]])


@pytest.mark.parametrize(
    ("tensor", "tail", "status"),
    [
        ({}, b"", 422),  # fewer bytes than are announced
        ({}, ONE.tobytes() + b"more", 400),
        ({"parameters": {"binary_data_size": 23}}, ONE.tobytes()[:23], 422),
        ({"parameters": {"binary_data_size": -1}}, ONE.tobytes(), 422),
        ({"parameters": {"binary_data_size": "24"}}, ONE.tobytes(), 422),
        ({"parameters": {}}, ONE.tobytes(), 422),
        ({"datatype": "BYTES"}, ONE.tobytes(), 422),
        ({"datatype": ["FP64"]}, ONE.tobytes(), 422),
        ({"data": [1, 2, 3]}, ONE.tobytes(), 422),
        ({"shape": [2, 3]}, ONE.tobytes(), 422),
        ({}, np.array([[1.0, np.nan, 3.0]]).tobytes(), 422),
        ({}, np.array([[1.0, np.inf, 3.0]]).tobytes(), 422),
    ],
)
def test_bytes_that_are_no_tensor_are_refused(shared, tensor, tail, status):
    answer = sent_as_bytes(shared, {"inputs": [bytes_of(ONE, **tensor)]}, tail)
    assert answer.status_code in (status, 400), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("length", ["", "-1", "1e3", "9" * 30, "100000", "3", "\u0663"])
def test_a_length_of_the_json_that_is_none_is_refused(shared, length):
    answer = sent_as_bytes(shared, {"inputs": []}, b"", length.encode("latin-1", "replace").decode())
    assert answer.status_code == 400, answer.text


def test_bytes_without_their_header_are_refused(shared):
    answer = shared.http.post(URL, json=rows([], (1, 3), parameters={"binary_data_size": 24}))
    assert answer.status_code == 400
