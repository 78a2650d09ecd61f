"""Fleets over HTTP: predictions and labels by key, rights, limits, ids of batches, metrics, restarts."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest
from support.serving import NAMES, fitted, table

from hedgerow import Domain, OnlineTransferRegressor
from hedgerow.client import AsyncClient, Client, ServiceError
from hedgerow.fleet import Fleet
from hedgerow.live import LiveModel
from hedgerow.service.routes import bounded

KEYS = ["north", "south", 7]


@pytest.fixture(scope="module")
def base():
    return fitted(method="hedgerow-linear")


@pytest.fixture
def folder(tmp_path, base):
    folder = tmp_path / "models"
    folder.mkdir()
    Fleet(base, path=folder / "sites").close()
    LiveModel.create(folder / "site", base).close()
    return folder


def batch(n, seed=0):
    X, y = table(n, 0.5, seed)
    return [KEYS[i % 3] for i in range(n)], X, y.tolist()


def test_keys_teach_new_ones_where_the_sources_are_kept(serve, tmp_path):
    domains = [Domain(name, *table(40, 0.1, seed)) for seed, name in enumerate("ab")]
    Fleet(domains, "hedgerow-linear", path=tmp_path / "shops", consolidate=0).close()
    Fleet(domains, "hedgerow-linear", path=tmp_path / "plain").close()
    service = serve(tmp_path, "--consolidate", "2").ready()
    with Client(service.url) as client:
        for name in ("shops", "plain"):
            for key in range(2):
                X, y = table(20, 0.5, key)
                client.fleet(name).learn([key] * 20, X, y.tolist())
        until = time.monotonic() + 60
        while not client.fleet("shops").stats()["bases"]:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert client.fleet("plain").stats()["bases"] == 0
        assert "notice" not in client.fleet("shops").about()
        assert "consolidate=2 has no effect" in client.fleet("plain").about()["notice"]
        assert client.fleet("shops").forget(0) == [0]


def test_it_predicts_and_learns_as_the_library_does_and_survives_a_restart(serve, folder, base):
    keys, X, y = batch(60)
    with Fleet(base) as fleet:
        before = fleet.predict_then_learn(keys[:30], X[:30], y[:30]).tolist()
        after = fleet.predict(keys[30:], X[30:]).tolist()
        shares = fleet.predict_proba(keys[30:], X[30:])
    service = serve(folder).ready()
    with Client(service.url) as client:
        fleet = client.fleet("sites")
        assert [one.label for one in fleet.predict_then_learn(keys[:30], X[:30], y[:30])] == before
        answers = fleet.predict(keys[30:], X[30:], explain=True)
        assert [one.label for one in answers] == after
        assert [one.key for one in answers] == keys[30:]
        assert np.array([list(one.probabilities.values()) for one in answers]) == pytest.approx(
            shares
        )
        by_name = [dict(zip(NAMES, row, strict=True)) for row in X[30:].tolist()]
        assert [one.probability for one in fleet.predict(keys[30:], by_name)] == pytest.approx(
            shares.max(axis=1)
        )
        assert fleet.stats()["held"] == 3
        assert (fleet.about()["features"], fleet.about()["classes"]) == (3, ["down", "up"])
        assert [one["name"] for one in client.fleets()] == ["sites"]
        assert [one["name"] for one in client.models()] == ["site"]
    assert service.stop() == 0
    service = serve(folder).ready()
    with Client(service.url) as client:
        fleet = client.fleet("sites")
        assert [one.label for one in fleet.predict(keys[30:], X[30:])] == after
        assert fleet.forget(*KEYS, "nobody") == KEYS
        with Fleet(base) as new:
            assert [one.label for one in fleet.predict(KEYS, X[:3])] == new.predict(
                KEYS, X[:3]
            ).tolist()
        text = service.http.get("/metrics").text
        for name in ("ready", "queue", "held", "bytes", "rows_stored", "file_bytes"):
            assert f'hedgerow_fleet_{name}{{fleet="sites"}}' in text
        fleet.delete()
        with pytest.raises(ServiceError, match="no model"):
            fleet.about()
    assert not (folder / "sites").exists()


def test_ids_of_keys_and_labels_that_come_later(serve, folder):
    """By the same rules as those of models: an id belongs to its key, whatever is sent twice and however it ended."""
    keys, X, y = batch(6)
    ids = ["one", "one", "one", "two", "two", "two"]
    service = serve(folder).ready()
    with Client(service.url) as client:
        fleet = client.fleet("sites")
        asked = fleet.predict(keys, X, ids)
        assert [(one.key, one.id, one.repeated) for one in asked] == [
            (key, id, False) for key, id in zip(keys, ids, strict=True)
        ]
        assert fleet.predict(keys[0], X[0], "one", explain=True).repeated
        with pytest.raises(ServiceError, match=r"422.*key 'north'.*another instance"):
            fleet.predict("north", X[1], "one")
        with pytest.raises(ServiceError, match=r"422.*ids"):
            fleet.predict(keys, X, ["one"])
        assert fleet.label("south", "one", y[1]).status == "learned"
        assert fleet.stats()["pending"] == 5
    service.process.kill()
    service = serve(folder).ready()
    with Client(service.url) as client:
        fleet = client.fleet("sites")
        assert fleet.predict(keys, X, ids) == [
            type(one)(
                **{name: getattr(one, name) for name in one.__struct_fields__} | {"repeated": True}
            )
            for one in asked
        ]
        results = fleet.label_many([*zip(keys, ids, y, strict=True), ("north", "three", "up")])
        statuses = ["learned", "duplicate", *["learned"] * 4, "unknown"]
        assert [result.status for result in results] == statuses
        assert fleet.label(7, "one", "up" if y[2] == "down" else "down").status == "conflict"
        assert fleet.predict("north", X[0]).key == "north"
        fleet.learn("north", X[0], y[0])
    assert service.stop() == 0
    with Fleet.open(folder / "sites") as fleet:
        assert {key: fleet[key].seen_ for key in KEYS} == {"north": 3, "south": 2, 7: 2}


def test_a_batch_that_is_sent_again_is_learned_once_also_after_a_kill(serve, folder):
    keys, X, y = batch(12)
    service = serve(folder).ready()
    with Client(service.url) as client:
        assert len(client.fleet("sites").predict_then_learn(keys, X, y, id="batch-1")) == 12
        assert client.fleet("sites").predict_then_learn(keys, X, y, id="batch-1") is None
    service.process.kill()
    service = serve(folder).ready()
    body = {"keys": keys, "instances": X.tolist(), "labels": y, "id": "batch-1"}
    assert service.http.post("/v1/fleets/sites/learn", json=body).json() == {
        "predictions": [],
        "duplicate": True,
    }
    assert service.stop() == 0
    with Fleet.open(folder / "sites") as fleet:
        assert sum(fleet[key].seen_ for key in KEYS) == 12


@pytest.mark.parametrize(
    ("call", "body", "status", "field"),
    [
        ("predict", {"instances": [[1, 2, 3]]}, 422, "keys"),
        ("predict", {"keys": ["a", "b"], "instances": [[1, 2, 3]]}, 422, "keys"),
        ("predict", {"keys": [""], "instances": [[1, 2, 3]]}, 422, "keys[0]"),
        ("predict", {"keys": [1.5], "instances": [[1, 2, 3]]}, 422, "keys[0]"),
        ("predict", {"keys": ["a"], "instances": [[1, 2]]}, 422, "instances[0]"),
        ("predict", {"keys": ["a"] * 9, "instances": [[1, 2, 3]] * 9}, 413, None),
        ("learn", {"keys": ["a"], "instances": [[1, 2, 3]], "labels": []}, 422, "labels"),
        ("learn", {"keys": ["a"], "instances": [[1, 2, 3]], "labels": ["up", "up"]}, 422, "labels"),
        (
            "learn",
            {"keys": ["a"], "instances": [[1, 2, 3]], "labels": ["up"], "id": "a b"},
            422,
            "id",
        ),
    ],
)
def test_what_is_refused(tight, call, body, status, field):
    answer = tight.http.post(f"/v1/fleets/sites/{call}", json=body)
    assert answer.status_code == status, answer.text
    assert field is None or answer.json()["errors"][0]["field"] == field
    assert tight.http.get("/v1/fleets/sites/stats").json()["held"] == 0


@pytest.fixture(scope="module")
def tight(tmp_path_factory, base):
    from support.serving import Service

    folder = tmp_path_factory.mktemp("models")
    Fleet(base, path=folder / "sites").close()
    service = Service(folder, "--max-rows", "8")
    yield service.ready()
    assert service.stop() == 0


def test_a_model_is_no_fleet_and_names_are_shared(serve, folder, base):
    service = serve(folder).ready()
    assert service.http.get("/v1/fleets/site/stats").status_code == 404
    assert service.http.get("/v1/models/sites/stats").status_code == 404
    assert service.http.put("/v1/fleets/site", content=base.to_bytes()).status_code == 409
    created = service.http.put("/v1/fleets/more", content=base.to_bytes())
    assert (created.status_code, created.headers["location"]) == (201, "/v1/fleets/more")
    assert created.json()["ready"]


# -- the client that is awaited, and a model in the place of another ---------------------------------------------


def test_the_verbs_awaited(serve, folder):
    service = serve(folder).ready()
    keys, X, y = batch(6)

    async def main():
        async with AsyncClient(service.url) as client:
            await client.wait()
            model = client.model("site")
            fleet = client.fleet("sites")
            answers = await asyncio.gather(*(model.predict([row]) for row in X))
            results = await model.label_many(
                [(one.id, label) for [one], label in zip(answers, y, strict=True)]
            )
            await fleet.learn(keys, X, y)
            with pytest.raises(ServiceError) as refused:
                await model.predict([[1.0]])
            return results, await model.stats(), refused.value.errors

    results, stats, errors = asyncio.run(main())
    assert {result.status for result in results} == {"learned"}
    assert (stats["events"], stats["labels"]) == (6, 6)
    assert errors[0]["field"] == "instances[0]"


def test_a_model_takes_the_place_of_a_running_one_if_that_is_the_expected_one(serve, folder):
    service = serve(folder).ready()
    other = fitted(method="pa").to_bytes()
    with Client(service.url) as client:
        model = client.model("site")
        [waiting] = model.predict([[1.0, 2.0, 3.0]])
        tag = service.http.get("/v1/models/site").headers["etag"]
        assert service.http.put("/v1/models/site", content=other).status_code == 409
        answer = service.http.put(
            "/v1/models/site", content=other, headers={"If-Match": '"another"'}
        )
        assert (answer.status_code, answer.json()["type"]) == (412, "/problems/replaced")
        assert model.about()["method"] == "hedgerow-linear"
        answer = service.http.put("/v1/models/site", content=other, headers={"If-Match": tag})
        assert answer.status_code == 200, answer.text
        assert answer.headers["etag"] == service.http.get("/v1/models/site").headers["etag"] != tag
        assert model.about()["method"] == "pa"
        assert model.label(waiting.id, "up").status == "learned"  # which the old model predicted
        with pytest.raises(ServiceError) as found:
            model.replace(other, tag.strip('"'))
        assert found.value.status == 412
        with pytest.raises(ServiceError):
            model.replace(b"no model")
        assert model.about()["method"] == "pa"
        assert client.model("nobody").name == "nobody"
        with pytest.raises(ServiceError) as found:
            client.model("nobody").replace(other)
        assert found.value.status == 404
    assert service.stop() == 0
    service = serve(folder).ready()
    assert service.http.get("/v1/models/site").json()["method"] == "pa"


def test_lists_in_answers_are_bounded():
    long = {"classes": list(range(20)), "weights": {str(i): i for i in range(20)}, "events": 3}
    assert bounded(long, 20) == long
    assert bounded(long, 2) == {
        "classes": [0, 1], "weights": {"0": 0, "1": 1}, "events": 3, "truncated": {"classes": 20, "weights": 20},
    }  # fmt: skip


def test_a_fleet_of_numbers_answers_predictions_and_intervals(serve, folder):
    keys, X, _ = batch(40)
    y = (X @ [1.0, 2.0, 3.0]).tolist()
    reg = OnlineTransferRegressor(coverage=(0.9, 0.5)).fit(X[:20], y[:20])
    with Fleet(reg) as fleet:
        before = fleet.predict_then_learn(keys[:20], X[:20], y[:20])
        after = fleet.predict(keys[20:], X[20:])
        wide = fleet.predict_interval(keys[20:], X[20:])
        narrow = fleet.predict_interval(keys[20:], X[20:], 0.5)
    service = serve(folder).ready()
    with Client(service.url) as client:
        numbers = client.fleet("numbers")
        assert service.http.put("/v1/fleets/numbers", content=reg.to_bytes()).status_code == 201
        assert (numbers.about()["task"], client.fleet("sites").about()["task"]) == (
            "numbers",
            "classes",
        )
        assert [
            one.prediction for one in numbers.predict_then_learn(keys[:20], X[:20], y[:20])
        ] == pytest.approx(before)
        with pytest.raises(ServiceError, match=r"422.*key 'north'.*not a number"):
            numbers.learn(["north"], X[:1], ["warm"])
        answers = numbers.predict(keys[20:], X[20:], explain=True)
        assert [one.prediction for one in answers] == pytest.approx(after)
        assert np.array([one.interval for one in answers]) == pytest.approx(wide)
        assert np.array([one.intervals["0.5"] for one in answers]) == pytest.approx(narrow)
        assert answers[0].label is None
        assert numbers.predict(keys[:1], X[:1])[0].intervals is None
