"""The Open Inference Protocol, as clients of KServe and MLServer speak it."""

from __future__ import annotations

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
        ({"inputs": [7]}, "inputs"),
        (rows([1, 2], (1, 2)), "inputs[0].data[0]"),
        (rows([1, 2, 3], (2, 3)), "inputs[0].data"),
        (rows([[1, 2, 3], [4, 5]]), "inputs[0].data"),
        (rows([1, 2, "x"], (1, 3)), "inputs[0].data[0][2]"),
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


def test_the_binary_extension_is_refused_by_name(shared):
    headers = {"Inference-Header-Content-Length": "10", "Content-Type": "application/json"}
    answer = shared.http.post(URL, content=b"{}", headers=headers)
    assert answer.status_code == 400
    assert "binary" in answer.json()["detail"]
    answer = shared.http.post(URL, json=rows([], (1, 3), parameters={"binary_data_size": 24}))
    assert answer.status_code == 400
