"""What is too much: bodies, batches, models, waiting requests, time. Every request is answered."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time

import httpx
import numpy as np
import pytest

from hedgerow.live import LiveModel
from hedgerow.service import ServiceSettings
from hedgerow.service.app import build
from hedgerow.service.middleware import Log
from hedgerow.service.routes import DOWNLOADS

ROW = [1.0, 2.0, 3.0]


@pytest.fixture(scope="module")
def tight(tmp_path_factory, clf):
    """A service with small limits."""
    from support.serving import Service

    folder = tmp_path_factory.mktemp("models")
    LiveModel.create(folder / "site", clf).close()
    options = ("--max-body", "2000", "--max-upload", "3000", "--max-rows", "4", "--max-models", "1")
    service = Service(folder, *options)
    yield service.ready()
    assert service.stop() == 0


def kind(answer):
    return answer.status_code, answer.json()["type"].rpartition("/")[2]


def chunked(size):
    for _ in range(size // 500):
        yield b" " * 500


def test_bodies(tight):
    headers = {"Content-Type": "application/json"}
    for content in (b" " * 2001, chunked(10_000)):
        answer = tight.http.post("/v1/models/site/predict", content=content, headers=headers)
        assert kind(answer) == (413, "too-large")
    answer = tight.http.post("/v1/models/site/predict", content=chunked(1500), headers=headers)
    assert kind(answer) == (400, "malformed")


def test_batches(tight):
    answer = tight.http.post("/v1/models/site/predict", json={"instances": [ROW] * 5})
    assert kind(answer) == (413, "too-large")
    answer = tight.http.post(
        "/v1/models/site/label", json={"labels": [{"id": "a", "label": "up"}] * 5}
    )
    assert kind(answer) == (413, "too-large")


def test_models(tight, clf):
    answer = tight.http.put("/v1/models/second", content=clf.to_bytes())
    assert kind(answer) == (429, "busy")
    assert int(answer.headers["retry-after"]) >= 1


# -- in this process, where time can be made short and the writer held ---------------------------------------


@pytest.fixture
def held(models):
    """An application whose model does nothing while the lock is held."""
    return build(ServiceSettings(models=models, max_waiting=3, request_timeout=0.5))


def test_before_a_model_is_open_it_says_when_to_come_again(held, monkeypatch):
    release = threading.Event()
    opened = LiveModel.open
    monkeypatch.setattr(LiveModel, "open", lambda folder: release.wait(30) and opened(folder))

    async def run():
        async with held.router.lifespan_context(held):
            transport = httpx.ASGITransport(app=held)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                found = [await http.get(path) for path in ("/readyz", "/v1/models/site/stats")]
                found.append(await http.post("/v1/models/site/predict", json={"instances": [ROW]}))
                assert (await http.get("/healthz")).status_code == 200
                [model] = (await http.get("/v1/models")).json()["models"]
                assert model == {"name": "site", "ready": False, "error": "the model is opening"}
                release.set()
                held.state.models.stop()
                found.append(await http.get("/healthz"))
                return found

    for answer in asyncio.run(run()):
        assert kind(answer) == (503, "not-ready")
        assert answer.headers["retry-after"]


def hold(live, release):
    """Keep the writer busy until `release` is set."""
    begun = threading.Event()

    def work(_):
        begun.set()
        release.wait(30)

    thread = threading.Thread(target=live.do_together, args=(work,))
    thread.start()
    begun.wait(10)
    return thread


def test_one_more_than_may_wait_is_answered_429(held, with_client):
    async def work(http, models):
        entry = models["site"]
        release = threading.Event()
        thread = hold(entry.live, release)
        calls = [
            asyncio.create_task(
                http.post("/v1/models/site/predict", json={"instances": [ROW], "ids": [f"id-{i}"]})
            )
            for i in range(10)
        ]
        await asyncio.sleep(0.2)
        release.set()
        answers = await asyncio.gather(*calls)
        thread.join()
        return answers

    answers = with_client(held, work)
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [429] * 7
    assert all(answer.headers["retry-after"] for answer in answers if answer.status_code == 429)


def test_a_request_that_waited_too_long_is_answered_504_and_may_be_sent_again(held, with_client):
    async def work(http, models):
        entry = models["site"]
        release = threading.Event()
        thread = hold(entry.live, release)
        body = {"instances": [ROW], "ids": ["late"]}
        late = await http.post("/v1/models/site/predict", json=body)
        release.set()
        thread.join()
        return (
            late,
            await http.post("/v1/models/site/predict", json=body),
            entry.live.stats()["events"],
        )

    late, again, events = with_client(held, work)
    assert kind(late) == (504, "timed-out")
    assert again.status_code == 200
    assert events == 1


def test_a_body_that_does_not_end_is_answered_408(held, with_client):
    async def work(http, models):
        async def slow():
            yield b"{"
            await asyncio.sleep(2)
            yield b"}"

        headers = {"Content-Type": "application/json"}
        return await http.post("/v1/models/site/predict", content=slow(), headers=headers)

    assert kind(with_client(held, work)) == (408, "slow")


def test_waiting_requests_are_worked_on_together_and_each_has_its_own_answer(held, with_client):
    """Also when one of them is wrong: the others are answered."""
    app = held

    async def work(http, models):
        entry = models["site"]
        app.state.models.settings = ServiceSettings()
        release = threading.Event()
        await http.post("/v1/models/site/predict", json={"instances": [ROW], "ids": ["old"]})
        thread = hold(entry.live, release)
        bodies = [{"instances": [[i, 2.0, 3.0]], "ids": [f"id-{i}"]} for i in range(8)]
        bodies += [{"instances": [[i, 2.0, 3.0]]} for i in range(8)]
        bodies += [{"instances": [[9.0, 9.0, 9.0]], "ids": ["old"]}]
        calls = [
            asyncio.create_task(http.post("/v1/models/site/predict", json=body)) for body in bodies
        ]
        await asyncio.sleep(0.2)
        labels = {"labels": [{"id": "old", "label": "up"}]}
        calls += [
            asyncio.create_task(http.post("/v1/models/site/label", json=labels)) for _ in range(3)
        ]
        await asyncio.sleep(0.1)
        release.set()
        answers = await asyncio.gather(*calls)
        thread.join()
        return answers, entry.live.stats()

    answers, stats = with_client(app, work)
    *predictions, wrong = answers[:17]
    assert [a.json()["predictions"][0]["id"] for a in predictions[:8]] == [
        f"id-{i}" for i in range(8)
    ]
    assert len({a.json()["predictions"][0]["id"] for a in predictions}) == 16
    assert kind(wrong) == (422, "invalid")
    assert sorted(a.json()["results"][0]["status"] for a in answers[17:]) == [
        "duplicate",
        "duplicate",
        "learned",
    ]
    assert (stats["events"], stats["labels"]) == (17, 1)


def test_an_answer_that_would_be_too_large_is_refused_before_any_work(
    models, monkeypatch, with_client
):
    monkeypatch.setattr("hedgerow.service.routes.MOST_BYTES", 5000)
    app = build(ServiceSettings(models=models))

    async def work(http, models):
        entry = models["site"]
        calls = [
            await http.post(
                "/v1/models/site/predict", json={"instances": [ROW] * rows, "explain": True}
            )
            for rows in (200, 2)
        ]
        return calls, entry.live.stats()["events"]

    (large, small), events = with_client(app, work)
    assert kind(large) == (413, "too-large")
    assert "ask for" in large.json()["detail"]
    assert (small.status_code, events) == (200, 2)


def test_curves_are_thinned_to_what_an_answer_may_have(models, monkeypatch, with_client):
    monkeypatch.setattr("hedgerow.service.routes.MOST_BYTES", 8_000)
    app = build(ServiceSettings(models=models))

    async def work(http, models):
        entry = models["site"]
        rows = np.random.default_rng(0).normal(size=(3000, 3))
        for i in range(0, 3000, 100):
            entry.live.predict_then_learn(rows[i : i + 100], ["up", "down"] * 50)
        return await http.get("/v1/models/site/history"), entry.live.history()

    answer, points = with_client(app, work)
    shown = answer.json()["points"]
    assert 5 < len(shown) < len(points)
    assert shown[-1]["labels"] == points[-1]["labels"] == 3000
    assert len(answer.content) < 8_000


def test_one_more_export_than_allowed_waits_for_its_turn(models, with_client):
    app = build(ServiceSettings(models=models))

    async def work(http, models):
        app.state.models.downloads = DOWNLOADS
        busy = [await http.get(f"/v1/models/site/{what}") for what in ("export", "model")]
        app.state.models.downloads = 0
        return busy, await http.get("/v1/models/site/model")

    busy, answer = with_client(app, work)
    assert [kind(each) for each in busy] == [(429, "busy")] * 2
    assert answer.status_code == 200


def test_a_caller_who_does_not_read_an_export_is_left(models, monkeypatch, with_client):
    monkeypatch.setattr("hedgerow.service.routes.WRITE_SECONDS", 0.2)
    app = build(ServiceSettings(models=models))
    sent = []

    async def send(message):
        sent.append(message["type"])
        if message["type"] == "http.response.body":
            await asyncio.sleep(30)

    async def receive():
        await asyncio.sleep(30)  # the caller sends nothing more, and does not go

    async def work(http, models):
        scope = {
            "type": "http", "method": "GET", "path": "/v1/models/site/model", "query_string": b"", "root_path": "",
            "headers": [(b"host", b"127.0.0.1")],
        }  # fmt: skip
        began = time.monotonic()
        await app(scope, receive, send)
        return time.monotonic() - began, app.state.models.downloads

    seconds, active = with_client(app, work)
    assert sent == ["http.response.start", "http.response.body"]
    assert (seconds < 5, active) == (True, 0)


def test_records_of_libraries_have_their_arguments_and_do_not_flood_the_log():
    log = Log()
    logger = logging.Logger("library")
    logger.addHandler(log)
    for _ in range(1000):
        logger.error("snapshot %d was not written: %s", 7, "no space")
    [line] = log._lines
    assert line["event"] == "snapshot 7 was not written: no space"


def test_an_error_inside_is_answered_without_its_text(held, monkeypatch, with_client):
    async def work(http, models):
        entry = models["site"]
        monkeypatch.setattr(entry.live, "stats", broken)
        return await http.get("/v1/models/site/stats")

    def broken():
        raise RuntimeError("secret 271828")

    answer = with_client(held, work)
    assert kind(answer) == (500, "internal")
    assert "271828" not in answer.text
    lines = [json.dumps(line) for line in held.state.log._lines]
    assert not any("271828" in line for line in lines)
