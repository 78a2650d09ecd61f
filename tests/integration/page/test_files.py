"""The files of the page: served whole, never from elsewhere, and only those."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hedgerow

STATIC = Path(hedgerow.__file__).parent / "service" / "static"
OURS = sorted(path for path in STATIC.iterdir() if path.is_file())


def test_pages_have_a_strict_policy_and_are_asked_for_again(service):
    for path in ("/", "/models/new", "/static/model.js"):
        answer = service.http.get(path)
        policy = answer.headers["content-security-policy"]
        assert answer.status_code == 200
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = service.http.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert service.http.head(path).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["nothing.js", "../pages.py", "..%2fpages.py", "%2e%2e/%2e%2e/__init__.py", "vendor", ""],
)
def test_nothing_but_the_pages_files_is_served(service, path):
    answer = service.http.get(f"/static/{path}")
    assert answer.status_code == 404
    assert "import" not in answer.text


def test_the_drawing_library_has_its_licence_beside_it(service):
    assert "uPlot" in (STATIC / "vendor" / "uPlot.iife.min.js").read_text(encoding="utf-8")[:100]
    assert "MIT" in service.http.get("/static/vendor/uPlot.LICENSE").text


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_files_are_small_and_name_no_other_site(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 250
    assert set(re.findall(r"https?://[^\s\"'<`]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://127.0.0.1:8080",
    }
    assert not re.search(r"<script>|<style|style=|\son\w+=|\beval\(|innerHTML", text)
