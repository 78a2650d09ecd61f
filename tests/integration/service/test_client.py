"""The client: typed answers, errors with their fields, and retries that count nothing twice."""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit

import numpy as np
import pytest

from hedgerow import OnlineTransferClassifier
from hedgerow.client import Client, ServiceError

ROW = {"width": 1.0, "height": 2.0, "depth": 3.0}


class Flaky:
    """A proxy that loses the answers to the first requests of each connection it is told to: they were worked on."""

    def __init__(self, url, lose):
        address = urlsplit(url)
        self._target = (address.hostname, address.port)
        self._left = lose
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _run(self):
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            with caller, socket.create_connection(self._target) as service:
                while self._passed_on(caller, service):
                    pass

    def _passed_on(self, caller, service):
        request = _message(caller)
        if not request:
            return False
        self.requests += 1
        service.sendall(request)
        answer = _message(service)
        if self._left > 0:
            self._left -= 1
            return False  # the connection breaks; the service has done its work
        caller.sendall(answer)
        return True


def _message(raw):
    data = b""
    while b"\r\n\r\n" not in data:
        part = raw.recv(65536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if b"content-length" in line
        ),
        0,
    )
    while len(body) < length:
        body += raw.recv(65536)
    return head + b"\r\n\r\n" + body


@pytest.fixture
def client(shared):
    with Client(shared.url) as client:
        yield client


def test_the_verbs(client, clf):
    assert "site" in [model["name"] for model in client.models()]
    model = client.model("site")
    assert model.about()["features"] == 3
    before = model.stats()
    one, two = model.predict(np.array([[1, 2, 3], [4, 5, 6]]), explain=True)
    assert one.votes is not None
    assert one.id != two.id
    assert model.label(one.id, np.str_("up")).status == "learned"
    assert [r.status for r in model.label_many([(one.id, "up"), (two.id, "down")])] == [
        "duplicate",
        "learned",
    ]
    assert len(model.predict_then_learn([ROW], ["up"])) == 1
    after = model.stats()
    assert (after["events"] - before["events"], after["labels"] - before["labels"]) == (3, 3)
    assert model.history()
    assert len(model.latest(2)) == 2
    assert isinstance(model.alarms(), list)
    assert model.snapshot()["number"] > 0
    assert OnlineTransferClassifier.from_bytes(model.download()).n_features_in_ == 3


def test_up_and_away(client, clf):
    model = client.model("by-client")
    assert model.upload(clf.to_bytes())["ready"]
    with pytest.raises(ServiceError) as found:
        model.upload(clf.to_bytes())
    assert found.value.status == 409
    model.delete()


def test_errors_name_the_field(client):
    with pytest.raises(ServiceError) as found:
        client.model("site").predict([{"width": 1}])
    error = found.value
    assert (error.status, error.title) == (422, "The request cannot be used")
    assert error.errors[0] == {"field": "instances[0].height", "detail": "missing"}


@pytest.mark.parametrize("lose", [1, 3])
def test_a_lost_answer_is_asked_for_again_and_counted_once(shared, lose, monkeypatch):
    monkeypatch.setattr("hedgerow.client.time.sleep", lambda _: None)
    with Client(shared.url) as direct:
        before = direct.model("site").stats()
    flaky = Flaky(shared.url, lose)
    with Client(flaky.url) as client:
        model = client.model("site")
        [answer] = model.predict([ROW])
        assert answer.repeated
        flaky._left = lose
        assert model.label(answer.id, "up").status == "duplicate"
        flaky._left = lose
        model.predict_then_learn([ROW], ["down"])
    flaky.close()
    with Client(shared.url) as direct:
        after = direct.model("site").stats()
    assert flaky.requests == 3 * (lose + 1)
    assert (after["events"] - before["events"], after["labels"] - before["labels"]) == (2, 2)


def test_a_delete_whose_answer_was_lost_has_succeeded(shared, clf, monkeypatch):
    monkeypatch.setattr("hedgerow.client.time.sleep", lambda _: None)
    with Client(shared.url) as direct:
        direct.model("lost").upload(clf.to_bytes())
    flaky = Flaky(shared.url, 1)
    with Client(flaky.url) as client:
        client.model("lost").delete()
        with pytest.raises(ServiceError) as found:  # and one that was never there has not
            client.model("lost").delete()
    flaky.close()
    assert (found.value.status, flaky.requests) == (404, 3)


def test_an_upload_that_waiting_does_not_help_is_not_repeated(serve, models, clf, monkeypatch):
    waits = []
    service = serve(models, "--max-models", "1").ready()
    monkeypatch.setattr("hedgerow.client.time.sleep", waits.append)
    with Client(service.url) as client, pytest.raises(ServiceError, match="delete one first"):
        client.model("second").upload(clf.to_bytes())
    assert waits == []


def test_nobody_there(monkeypatch):
    waits = []
    monkeypatch.setattr("hedgerow.client.time.sleep", waits.append)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with (
        Client(f"http://127.0.0.1:{port}", tries=4) as client,
        pytest.raises(ServiceError, match="no answer") as found,
    ):
        client.models()
    assert found.value.status == 0
    assert len(waits) == 3
    assert waits[0] < waits[2]


def test_waiting_for_a_service_that_never_comes():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with (
        Client(f"http://127.0.0.1:{port}") as client,
        pytest.raises(ServiceError, match="not ready"),
    ):
        client.wait(0.2)


def test_it_waits_as_long_as_it_is_asked_to(monkeypatch):
    waits = []
    monkeypatch.setattr("hedgerow.client.time.sleep", waits.append)
    answers = [(503, "7"), (429, "0"), (200, "")]
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        caller, _ = listener.accept()
        with caller:
            for status, wait in answers:
                _message(caller)
                body = b'{"models": []}'
                head = f"HTTP/1.1 {status} X\r\nRetry-After: {wait}\r\nContent-Length: {len(body)}\r\n\r\n"
                caller.sendall(head.encode() + body)

    thread = threading.Thread(target=serve)
    thread.start()
    with Client(f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
        assert client.models() == []
    thread.join()
    listener.close()
    assert waits[0] == 7
    assert 0 < waits[1] < 1
