"""Every call of the service, against a real one: what it answers, and what it refuses by name."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hedgerow import OnlineTransferClassifier
from hedgerow.client import Client

ROW = {"width": 1.0, "height": 2.0, "depth": 3.0}


def predicted(service, **body):
    answer = service.http.post("/v1/models/site/predict", json={"instances": [ROW], **body})
    assert answer.status_code == 200, answer.text
    return answer.json()["predictions"]


def refused(answer, status, kind):
    """The answer is a problem document of this kind; its body."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["type"] == f"/problems/{kind}"
    assert found["status"] == status
    assert found["title"]
    assert found["detail"]
    assert found["instance"].endswith(answer.headers["x-request-id"])
    return found


def test_the_list_and_one_model(shared):
    found = shared.http.get("/v1/models").json()["models"]
    assert [model["name"] for model in found] == ["bare", "site"]
    assert all(model["ready"] for model in found)
    one = shared.http.get("/v1/models/site").json()
    assert one["feature_names"] == ["width", "height", "depth"]
    assert (one["features"], one["classes"], one["sources"]) == (3, ["down", "up"], ["s0", "s1"])


def test_a_prediction_is_an_event_that_can_be_labelled_once(shared):
    [answer] = predicted(shared, ids=["first"])
    assert answer["id"] == "first"
    assert answer["label"] in ("up", "down")
    assert 0.5 <= answer["probability"] <= 1
    assert answer["repeated"] is False
    [again] = predicted(shared, ids=["first"])
    assert again == {**answer, "repeated": True}
    statuses = []
    for id, label in [("first", "up"), ("first", "up"), ("first", "down"), ("nobody", "up")]:
        body = {"labels": [{"id": id, "label": label}]}
        [result] = shared.http.post("/v1/models/site/label", json=body).json()["results"]
        statuses.append(result["status"])
    assert statuses == ["learned", "duplicate", "conflict", "unknown"]


def test_predictions_are_those_of_the_library(shared, clf):
    X = np.random.default_rng(3).normal(size=(20, 3))
    assert shared.http.post("/v1/models/site/snapshot").status_code == 200
    copy = OnlineTransferClassifier.from_bytes(shared.http.get("/v1/models/site/model").content)
    answer = shared.http.post(
        "/v1/models/site/predict", json={"instances": X.tolist(), "explain": True}
    ).json()
    found = answer["predictions"]
    assert [p["label"] for p in found] == copy.predict(X).tolist()
    for x, one in zip(X, found, strict=True):
        said = copy.explain_one(x)
        assert one["probabilities"] == pytest.approx(said.probabilities)
        assert one["votes"] == said.votes
        assert one["weights"] == pytest.approx(said.weights)
    assert "votes" not in predicted(shared)[0]


def test_lists_and_objects_are_the_same_instance(shared):
    [by_name] = predicted(
        shared, instances=[{"depth": 3, "height": 2, "width": 1, "comment": "ignored"}]
    )
    [by_place] = predicted(shared, instances=[[1, 2, 3]])
    assert by_name["probability"] == by_place["probability"]


def test_predict_then_learn(shared):
    before = shared.http.get("/v1/models/bare/stats").json()
    body = {"instances": [[1, 2, 3], [-1, 0, 0]], "labels": ["up", "down"], "ids": ["p", "q"]}
    found = shared.http.post("/v1/models/bare/predict-then-learn", json=body).json()["predictions"]
    assert [p["id"] for p in found] == ["p", "q"]
    after = shared.http.get("/v1/models/bare/stats").json()
    assert (after["events"], after["labels"]) == (before["events"] + 2, before["labels"] + 2)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "instances"),
        ({"instances": []}, "instances"),
        ({"instances": {"width": 1}}, "instances"),
        ({"instances": [[1, 2]]}, "instances[0]"),
        ({"instances": [[1, 2, 3], [1, 2, "x"]]}, "instances[1][2]"),
        ({"instances": [[1, 2, True]]}, "instances[0][2]"),
        ({"instances": [[1, 2, None]]}, "instances[0][2]"),
        ({"instances": [[1, 2, 10**400]]}, "instances[0][2]"),
        ({"instances": [ROW, {"width": 1, "height": 2}]}, "instances[1].depth"),
        ({"instances": [{**ROW, "width": "wide"}]}, "instances[0].width"),
        ({"instances": ["row"]}, "instances[0]"),
        ({"instances": [ROW], "ids": []}, "ids"),
        ({"instances": [ROW], "ids": "a"}, "ids"),
        ({"instances": [ROW], "ids": [""]}, "ids[0]"),
        ({"instances": [ROW], "ids": ["a\n"]}, "ids[0]"),
        ({"instances": [ROW], "ids": [7]}, "ids[0]"),
        ({"instances": [ROW], "ids": ["#7"]}, "ids[0]"),
        ({"instances": [ROW, ROW], "ids": ["b", "b"]}, "ids[1]"),
        ({"instances": [ROW], "explain": 1}, "explain"),
        ({"instances": [ROW], "explian": True}, "explian"),
    ],
)
def test_a_field_that_cannot_be_used_is_named(shared, body, field):
    before = shared.http.get("/v1/models/site/stats").json()["events"]
    found = refused(shared.http.post("/v1/models/site/predict", json=body), 422, "invalid")
    assert found["errors"][0]["field"] == field
    assert shared.http.get("/v1/models/site/stats").json()["events"] == before


@pytest.mark.parametrize(
    ("call", "body", "field"),
    [
        ("label", {}, "labels"),
        ("label", {"labels": ["up"]}, "labels[0]"),
        ("label", {"labels": [{"id": "a"}]}, "labels[0].label"),
        ("label", {"labels": [{"id": "a", "label": None}]}, "labels[0].label"),
        ("label", {"labels": [{"id": "a", "label": "up", "weight": 2}]}, "labels[0].weight"),
        ("label", {"labels": [{"id": "a", "label": 2**64}]}, "labels[0].label"),
        ("label", {"labels": [{"id": "a", "label": "x" * 201}]}, "labels[0].label"),
        ("predict-then-learn", {"instances": [ROW]}, "labels"),
        ("predict-then-learn", {"instances": [ROW], "labels": []}, "labels"),
        ("predict-then-learn", {"instances": [ROW], "labels": ["up", "up"]}, "labels"),
        ("predict-then-learn", {"instances": [ROW], "labels": [["up"]]}, "labels[0]"),
    ],
)
def test_a_label_that_cannot_be_used_is_named(shared, call, body, field):
    found = refused(shared.http.post(f"/v1/models/site/{call}", json=body), 422, "invalid")
    assert found["errors"][0]["field"] == field


def test_all_wrong_fields_of_a_row_are_named(shared):
    body = {"instances": [{"width": "a", "height": None}]}
    found = refused(shared.http.post("/v1/models/site/predict", json=body), 422, "invalid")
    assert {error["field"] for error in found["errors"]} == {
        "instances[0].width", "instances[0].height", "instances[0].depth",
    }  # fmt: skip


def test_a_model_without_names_takes_no_objects(shared):
    found = refused(
        shared.http.post("/v1/models/bare/predict", json={"instances": [ROW]}), 422, "invalid"
    )
    assert "no names" in found["detail"]


def test_an_id_of_another_instance_is_refused(shared):
    predicted(shared, ids=["mine"])
    answer = shared.http.post(
        "/v1/models/site/predict", json={"instances": [[0, 0, 0]], "ids": ["mine"]}
    )
    assert "another instance" in refused(answer, 422, "invalid")["detail"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b'{"instances": [[NaN]]}', b'{"a": "\\ud800"}', b"[" * 5000]
)
def test_what_is_not_json(shared, content):
    answer = shared.http.post(
        "/v1/models/site/predict", content=content, headers={"Content-Type": "application/json"}
    )
    refused(answer, 400, "malformed")


def test_json_that_is_no_object(shared):
    refused(shared.http.post("/v1/models/site/predict", json=[1]), 422, "invalid")


def test_another_content_type(shared):
    refused(shared.http.post("/v1/models/site/predict", content=b"{}"), 415, "media-type")
    answer = shared.http.put("/v1/models/new", content=b"x", headers={"Content-Type": "text/plain"})
    refused(answer, 415, "media-type")


def test_what_is_not_there(shared):
    for path in ("/v1/models/nobody", "/v1/models/nobody/stats"):
        refused(shared.http.get(path), 404, "no-model")
    refused(
        shared.http.post("/v1/models/nobody/predict", json={"instances": [[1]]}), 404, "no-model"
    )
    refused(shared.http.delete("/v1/models/nobody?confirm=nobody"), 404, "no-model")
    refused(shared.http.get("/v1/nothing"), 404, "not-found")
    refused(shared.http.get("/v1/models/"), 404, "not-found")


def test_a_method_that_is_not_there(shared):
    answer = shared.http.patch("/v1/models/site")
    refused(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "DELETE, GET, PUT"


def test_queries(shared):
    assert len(shared.http.get("/v1/models/site/latest", params={"n": 1}).json()["events"]) <= 1
    found = refused(shared.http.get("/v1/models/site/latest", params={"n": 0}), 422, "invalid")
    assert found["errors"][0]["field"] == "n"
    refused(shared.http.get("/v1/models/site/latest", params={"n": "many"}), 422, "invalid")
    refused(shared.http.get("/v1/models/site/export", params={"format": "pickle"}), 422, "invalid")


def test_numbers_over_time(shared):
    predicted(shared, ids=["seen"])
    shared.http.post("/v1/models/site/label", json={"labels": [{"id": "seen", "label": "up"}]})
    stats = shared.http.get("/v1/models/site/stats").json()
    assert stats["events"] >= stats["labels"] >= 1
    points = shared.http.get("/v1/models/site/history").json()["points"]
    assert (
        shared.http.get("/v1/models/site/history", params={"n": 1}).json()["points"] == points[-1:]
    )
    newest = shared.http.get("/v1/models/site/latest").json()["events"][0]
    assert (newest["id"], newest["label"], newest["status"]) == ("seen", "up", "learned")
    assert isinstance(shared.http.get("/v1/models/site/alarms").json()["alarms"], list)
    assert shared.http.post("/v1/models/site/snapshot").json()["number"] > 0
    predicted(shared, ids=["newer"])
    asked = {"n": 1, "until": newest["number"], "features": True}
    (event,) = shared.http.get("/v1/models/site/latest", params=asked).json()["events"]
    assert event == newest | {"features": ROW}


def test_a_download_takes_no_snapshot(shared):
    predicted(shared, ids=["before-download"])
    shared.http.post(
        "/v1/models/site/label", json={"labels": [{"id": "before-download", "label": "up"}]}
    )
    before = shared.http.get("/v1/models/site/stats").json()
    assert shared.http.get("/v1/models/site/model").status_code == 200
    after = shared.http.get("/v1/models/site/stats").json()
    assert (after["snapshot"], after["last_commit"]) == (before["snapshot"], before["last_commit"])


def test_the_journal_as_lines(shared):
    predicted(shared, ids=["line"])
    lines = shared.http.get("/v1/models/site/export").text.splitlines()
    assert "line" in [json.loads(line).get("id") for line in lines]
    assert (
        shared.http.get("/v1/models/site/export", params={"format": "parquet"}).content[:4]
        == b"PAR1"
    )


def test_metrics(shared):
    predicted(shared)
    text = shared.http.get("/metrics").text
    events = shared.http.get("/v1/models/site/stats").json()["events"]
    assert f'hedgerow_model_events_total{{model="site"}} {float(events)}' in text
    for name in (
        "pending",
        "queue",
        "journal_bytes",
        "snapshot_age_seconds",
        "ready",
        "mistakes_total",
        "labels_total",
    ):
        assert f'hedgerow_model_{name}{{model="site"}}' in text
    assert 'path="/v1/models/{name}/predict",status="200"' in text
    assert "hedgerow_request_seconds_bucket" in text


def test_health_and_problems(shared):
    assert shared.http.get("/healthz").json() == {"status": "alive"}
    assert shared.http.get("/readyz").json() == {"ready": True, "models": {"ready": 2, "failed": 0}}
    found = shared.http.get("/problems/busy").json()
    assert found["status"] == 429
    refused(shared.http.get("/problems/none"), 404, "not-found")


def test_headers_of_every_answer(shared):
    for answer in (
        shared.http.get("/healthz"),
        shared.http.get("/nothing"),
        shared.http.get("/v1/models"),
    ):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers


def test_the_log_has_a_line_a_request_and_no_values(shared):
    body = {"instances": [{"width": 271.828, "height": 2, "depth": 3}], "ids": ["secret-id"]}
    answer = shared.http.post("/v1/models/site/predict", json=body)
    shared.http.post("/v1/models/site/label", json={"labels": [{"id": "secret-id", "label": "up"}]})
    shared.http.get("/v1/models/site/latest", params={"n": 7})
    lines = shared.log()
    [line] = [line for line in lines if line.get("request") == answer.headers["x-request-id"]]
    assert (line["method"], line["path"], line["status"]) == (
        "POST",
        "/v1/models/{name}/predict",
        200,
    )
    assert line["model"] == "site"
    assert line["ms"] > 0
    text = "".join(shared.lines)
    for private in ("271.828", "secret-id", "n=7", '"up"'):
        assert private not in text


def test_events_are_forgotten_by_their_ids(serve, models):
    service = serve(models).ready()
    with Client(service.url) as client:
        model = client.model("site")
        model.predict([ROW, ROW], ids=["a/1", "b"])
        model.label("b", "up")
        assert model.forget("a/1", "b", "c") == ["a/1", "b"]
        assert [one.status for one in model.label_many([("a/1", "up"), ("b", "up")])] == [
            "unknown",
            "unknown",
        ]
        assert model.stats()["labels"] == 1
    refused = service.http.post("/v1/models/site/forget", json={"ids": ["\x07"]})
    assert refused.status_code == 422
