"""Server-sent events: what changed, at most twice a second, to any number of readers, none of which is waited for."""

from __future__ import annotations

import json
import socket
import time
from urllib.parse import urlsplit

import httpx

ROW = [1.0, 2.0, 3.0]


def next_event(lines):
    found = {}
    for line in lines:
        if line.startswith("event: "):
            found["event"] = line[7:]
        elif line.startswith("data: "):
            found["data"] = json.loads(line[6:])
        elif not line and "data" in found:
            return found
    raise AssertionError("the stream ended")


def test_a_change_is_told_with_the_numbers_of_the_api(shared):
    with httpx.stream("GET", f"{shared.url}/v1/models/bare/events", timeout=20) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        first = next_event(lines)
        assert first["event"] == "stats"
        assert set(first["data"]) == {"stats", "point", "latest", "alarms"}
        began = time.monotonic()
        answer = shared.http.post("/v1/models/bare/predict", json={"instances": [ROW]}).json()["predictions"][0]
        told = next_event(lines)
        assert time.monotonic() - began < 5
        assert told["data"]["stats"]["events"] == first["data"]["stats"]["events"] + 1
        assert told["data"]["latest"][0]["id"] == answer["id"]
        now = shared.http.get("/v1/models/bare/stats").json()
        assert told["data"]["stats"]["pending"] == now["pending"]


def test_a_reader_that_does_not_read_holds_up_nobody(shared):
    address = urlsplit(shared.url)
    sleepers = []
    for _ in range(5):
        raw = socket.create_connection((address.hostname, address.port))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        raw.sendall(b"GET /v1/models/bare/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        sleepers.append(raw)
    began = time.monotonic()
    for _ in range(30):
        assert shared.http.post("/v1/models/bare/predict", json={"instances": [ROW]}).status_code == 200
    assert time.monotonic() - began < 10
    for raw in sleepers:
        raw.close()


def test_what_cannot_be_followed(shared):
    assert shared.http.get("/v1/models/nobody/events").status_code == 404
