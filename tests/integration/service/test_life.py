"""Start, end, restart, two services, damaged models: nothing is lost, and one bad model stops nobody."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from urllib.parse import urlsplit

import httpx
import pytest
from support.command import COMMAND, environment
from support.serving import NAMES, fitted

from hedgerow import OnlineTransferClassifier
from hedgerow.core.errors import InputError
from hedgerow.live import LiveModel
from hedgerow.live.journal import Journal
from hedgerow.service import ServiceSettings
from hedgerow.service.app import serve as run

ROW = dict(zip(NAMES, (1.0, 2.0, 3.0), strict=True))


def learn(service, n, name="site"):
    for i in range(n):
        url = f"/v1/models/{name}"
        [answer] = service.http.post(
            f"{url}/predict", json={"instances": [ROW], "ids": [f"e{i}"]}
        ).json()["predictions"]
        label = {"labels": [{"id": answer["id"], "label": "up" if i % 2 else "down"}]}
        assert service.http.post(f"{url}/label", json=label).json()["results"][0]["status"] in (
            "learned",
            "duplicate",
        )


def state(service):
    """Every number of the model, as bytes."""
    assert service.http.post("/v1/models/site/snapshot").status_code == 200
    clf = OnlineTransferClassifier.from_bytes(service.http.get("/v1/models/site/model").content)
    return {name: array.tobytes() for name, array in clf.learner_.arrays().items()}


def test_a_restart_keeps_everything_and_kill_too(serve, models):
    service = serve(models, fresh=True).ready()  # whose process is the one that is named below
    learn(service, 5)
    second = serve(models).opened()  # on the same folder: it names the first, and harms nothing
    [model] = second.http.get("/v1/models").json()["models"]
    assert not model["ready"]
    assert str(service.process.pid) in model["error"]
    assert second.stop() == 0
    before = state(service)
    assert service.stop() == 0
    service = serve(models).ready()
    assert state(service) == before
    learn(service, 9)  # the first five are known
    assert service.http.get("/v1/models/site/stats").json()["labels"] == 9
    before = state(service)
    assert service.stop(signal.SIGKILL) == -signal.SIGKILL
    [work] = models.glob(".work*")
    (work / "left").mkdir()
    service = serve(models).ready()
    assert state(service) == before
    assert not list(work.iterdir())  # what the dead process left is gone
    assert service.stop(signal.SIGINT) == 0
    assert not list(models.glob(".work*"))


def test_sigterm_finishes_what_has_begun_and_ends_half_sent_bodies(serve, models):
    service = serve(models).ready()
    answers = []
    stop = threading.Event()
    port = urlsplit(service.url).port
    half = socket.create_connection(("127.0.0.1", port))  # which does not end by itself
    half.sendall(
        b"POST /v1/models/site/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    )
    half.sendall(b"Content-Length: 100\r\n\r\n{")

    def ask():
        with httpx.Client(base_url=service.url) as http:
            while not stop.is_set():
                try:
                    answers.append(
                        http.post("/v1/models/site/predict", json={"instances": [ROW]}).status_code
                    )
                except httpx.TransportError:
                    return

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.7)
    began = time.monotonic()
    assert service.stop() == 0
    assert time.monotonic() - began < 3
    assert b" 503 " in half.recv(4096)
    half.close()
    stop.set()
    for thread in threads:
        thread.join(10)
    assert 200 in answers
    assert set(answers) <= {200, 503}
    with LiveModel.open(models / "site") as live:
        assert live.stats()["events"] >= answers.count(
            200
        )  # every answer that was given is in the journal


def test_bad_models_are_listed_with_their_error_and_stop_nobody(serve, models, clf):
    (models / "empty").mkdir()
    LiveModel.create(models / "damaged", clf).close()
    journal = models / "damaged" / Journal.FILE
    journal.write_bytes(journal.read_bytes()[:100] + b"\0" * 1000)
    (models / "link").symlink_to(models / "site")
    (models / ".hidden").mkdir()
    shutil.copytree(models / "site", models / "no such name!")
    with LiveModel.open(models / "site"), LiveModel.create(models / "owned", clf):
        service = serve(models).opened()
        found = {model["name"]: model for model in service.http.get("/v1/models").json()["models"]}
        assert set(found) == {"damaged", "empty", "owned", "site"}
        assert not any(model["ready"] for model in found.values())
        for name in ("owned", "site"):
            assert str(os.getpid()) in found[name]["error"]
        assert str(models) not in service.http.get("/v1/models").text
        end = time.monotonic() + 10
        while not any(
            "model damaged cannot be used: " in line for line in service.lines
        ):  # in the log too
            assert time.monotonic() < end
            time.sleep(0.1)
        answer = service.http.post("/v1/models/owned/predict", json={"instances": [ROW]})
        assert (answer.status_code, answer.json()["type"]) == (503, "/problems/unusable")
        assert answer.headers["retry-after"]
        assert service.http.delete("/v1/models/owned?confirm=owned").status_code == 503
        answer = service.http.get("/readyz")  # nobody should be sent here
        assert (answer.status_code, "none of the 4 models" in answer.json()["detail"]) == (
            503,
            True,
        )
        assert service.http.put("/v1/models/link", content=b"").status_code == 409
    end = time.monotonic() + 30
    while not service.http.get("/v1/models/site").json()["ready"]:  # its owner is gone
        assert time.monotonic() < end
        time.sleep(0.2)
    assert service.http.get("/readyz").json()["models"]["ready"] > 0
    assert service.http.delete("/v1/models/empty?confirm=empty").status_code == 204
    assert not (models / "empty").exists()


def test_names_cannot_leave_the_folder(shared, clf):
    data = clf.to_bytes()
    for name in (
        "..",
        ".",
        "..%2F..%2Fetc",
        "%2e%2e%2f",
        "a%2Fb",
        "a%00b",
        ".hidden",
        "-dash",
        "a" * 65,
        "%0a",
        "a b",
    ):
        answer = shared.http.put(f"/v1/models/{name}", content=data)
        assert answer.status_code in (404, 405, 422), name
        assert answer.headers["content-type"] == "application/problem+json"
        assert shared.http.get(f"/v1/models/{name}/stats").status_code in (404, 405, 422)


def test_what_cannot_be_served_is_said_before_anything_listens(tmp_path, shared):
    with pytest.raises(InputError, match="no folder"):
        run(ServiceSettings(models=tmp_path / "none"), demo=False, tell=print)
    port = shared.url.rpartition(":")[2]
    command = [*COMMAND, "serve", "--models", str(tmp_path), "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
    assert done.returncode == 2
    assert "error: cannot listen at 127.0.0.1" in done.stderr


def test_a_model_file_in_the_folder_becomes_a_live_model(serve, models):
    fitted().save(models / "fresh.safetensors")
    (models / "broken.safetensors").write_bytes(b"no model")
    service = serve(models).ready()
    learn(service, 3, "fresh")
    found = {model["name"]: model for model in service.http.get("/v1/models").json()["models"]}
    assert {name: model["ready"] for name, model in found.items()} == {
        "broken": False,
        "fresh": True,
        "site": True,
    }
    assert "broken" in found["broken"]["error"]
    assert service.stop() == 0
    again = serve(models).ready()  # what it has learned counts, not the file
    assert again.http.get("/v1/models/fresh/stats").json()["labels"] == 3
    for name in ("fresh", "broken"):  # the second has no folder
        assert again.http.delete(f"/v1/models/{name}?confirm={name}").status_code == 204
        assert again.http.get(f"/v1/models/{name}").status_code == 404
    assert again.stop() == 0
    last = serve(models).ready()
    assert [model["name"] for model in last.http.get("/v1/models").json()["models"]] == ["site"]


def test_a_model_file_that_has_changed_is_not_silently_ignored(serve, models):
    file = models / "new.safetensors"
    fitted().save(file)
    service = serve(models, fresh=True).ready()
    assert "notice" not in service.http.get("/v1/models/new").json()
    assert service.stop() == 0
    other = fitted()
    other.learn_one([1.0, 2.0, 3.0], "up")
    other.save(file)
    service = serve(models, fresh=True).ready()
    notice = service.http.get("/v1/models/new").json()["notice"]
    assert "new.safetensors has changed since the model was started" in notice
    assert "hedgerow replace new new.safetensors" in notice
    assert any("new.safetensors has changed" in line for line in map(json.dumps, service.log()))
    replaced = service.http.put(
        "/v1/models/new", content=file.read_bytes(), headers={"If-Match": "*"}
    )
    assert replaced.status_code == 200
    assert "notice" not in replaced.json()
    assert service.stop() == 0
    file.write_bytes(b"no model at all")
    service = serve(models, fresh=True).ready()
    assert "is no model" in service.http.get("/v1/models/new").json()["notice"]
