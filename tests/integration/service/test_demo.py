"""`hedgerow serve --demo`: a newcomer sees it move within seconds, without a folder or a file."""

from __future__ import annotations

import time

from support.serving import Service


def test_the_demo_moves_and_ends():
    service = Service(None, "--demo").ready()
    end = time.monotonic() + 60
    found = {}
    while found.get("labels", 0) < 5:
        assert time.monotonic() < end
        time.sleep(0.2)
        found = next(iter(service.http.get("/v1/models").json()["models"]), {})
    assert found["name"] == "digits"
    assert found["events"] > found["labels"]
    assert service.stop() == 0
