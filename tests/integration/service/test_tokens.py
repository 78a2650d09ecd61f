"""Who may do what: the matrix of rights and calls, the token file, hosts and origins."""

from __future__ import annotations

import base64
import os

import httpx
import pytest
from support.serving import Service

from hedgerow.core.errors import InputError
from hedgerow.fleet import Fleet
from hedgerow.live import LiveModel
from hedgerow.service import ServiceSettings, create_app
from hedgerow.service.middleware import Tokens

TOKENS = {
    right: f"a-token-that-may-{right}-x"
    for right in ("read", "predict", "learn", "admin", "other", "both")
}
LINES = "\n".join(
    [
        "# token right models",
        *(f"{TOKENS[right]} {right} site,shops" for right in ("read", "predict", "learn", "admin")),
        f"{TOKENS['other']} admin elsewhere",
        f"{TOKENS['both']} predict,learn *",
    ]
)
KEYED = {"keys": ["a"], "instances": [[1, 2, 3]]}
CALLS = [  # method, path, body, the right it needs
    ("GET", "/v1/models/site", None, "read"),
    ("GET", "/v1/models/site/stats", None, "read"),
    ("GET", "/v1/models/site/history", None, "read"),
    ("GET", "/v1/models/site/latest", None, "read"),
    ("GET", "/v1/models/site/alarms", None, "read"),
    ("GET", "/v1/models/site/export", None, "read"),
    ("GET", "/v1/models/site/model", None, "read"),
    ("POST", "/v1/models/site/predict", {"instances": [[1, 2, 3]]}, "predict"),
    ("POST", "/v1/models/site/label", {"labels": [{"id": "none", "label": "up"}]}, "learn"),
    ("POST", "/v1/models/site/explain", {"instance": [1, 2, 3]}, "predict"),
    (
        "POST",
        "/v1/models/site/predict-then-learn",
        {"instances": [[1, 2, 3]], "labels": ["up"]},
        "learn",
    ),
    ("POST", "/v1/models/site/snapshot", None, "admin"),
    ("PUT", "/v1/models/site", None, "admin"),
    ("POST", "/v1/models/site/forget", {"ids": ["none"]}, "admin"),
    ("GET", "/v1/fleets/shops", None, "read"),
    ("GET", "/v1/fleets/shops/stats", None, "read"),
    ("POST", "/v1/fleets/shops/predict", KEYED, "predict"),
    ("POST", "/v1/fleets/shops/learn", {**KEYED, "labels": ["up"]}, "learn"),
    (
        "POST",
        "/v1/fleets/shops/label",
        {"labels": [{"key": "a", "id": "b", "label": "up"}]},
        "learn",
    ),
    ("POST", "/v1/fleets/shops/forget", {"keys": ["a"]}, "admin"),
    ("PUT", "/v1/fleets/shops", None, "admin"),
]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, clf):
    folder = tmp_path_factory.mktemp("models")
    for name in ("site", "elsewhere"):
        LiveModel.create(folder / name, clf).close()
    Fleet(clf, path=folder / "shops").close()
    file = folder.parent / "tokens"
    file.write_text(LINES)
    file.chmod(0o600)
    service = Service(folder, "--token-file", str(file), "--host", "0.0.0.0")
    service.url = service.url.replace("0.0.0.0", "127.0.0.1")
    service.http = httpx.Client(base_url=service.url)
    yield service.ready()
    assert service.stop() == 0


def bearer(name):
    return {"Authorization": f"Bearer {TOKENS[name]}"}


@pytest.mark.parametrize(
    ("method", "path", "body", "right"), CALLS, ids=[f"{m} {p}" for m, p, _, _ in CALLS]
)
def test_each_right_stands_for_itself_and_admin_for_all(guarded, method, path, body, right):
    def status(**arguments):
        return guarded.http.request(
            method, path, **({"json": body} if body else {}), **arguments
        ).status_code

    assert status() == 401
    assert status(headers={"Authorization": "Bearer wrong-token-wrong-token"}) == 401
    assert status(headers={"Authorization": TOKENS["admin"]}) == 401
    assert status(headers=bearer("other")) == 403
    for name in ("read", "predict", "learn", "admin", "both"):
        allowed = name in (right, "admin") or (name == "both" and right in ("predict", "learn"))
        assert (status(headers=bearer(name)) != 403) is allowed, name


def test_lists_show_what_a_token_may_read(guarded):
    def names(name):
        return [
            model["name"]
            for model in guarded.http.get("/v1/models", headers=bearer(name)).json()["models"]
        ]

    assert names("read") == ["site"]
    assert names("other") == ["elsewhere"]
    assert guarded.http.get("/v1/models", headers=bearer("both")).status_code == 403
    text = guarded.http.get("/metrics", headers=bearer("read")).text
    assert 'model="site"' in text
    assert 'model="elsewhere"' not in text
    assert guarded.http.get("/metrics").status_code == 401
    assert guarded.http.get("/metrics", headers=bearer("predict")).status_code == 403


def test_what_is_open(guarded):
    for path in ("/healthz", "/readyz", "/openapi.json", "/problems/busy"):
        assert guarded.http.get(path).status_code == 200


def test_a_model_that_is_not_there_is_forbidden_like_any_other(guarded):
    assert guarded.http.get("/v1/models/nobody", headers=bearer("read")).status_code == 403


def test_a_token_is_sent_as_a_bearers(guarded):
    assert guarded.http.get("/v1/models").headers["www-authenticate"].startswith("Bearer")
    given = base64.b64encode(f"me:{TOKENS['read']}".encode()).decode()
    for bad in ("Bearer", TOKENS["read"], f"Basic {given}"):
        assert guarded.http.get("/v1/models", headers={"Authorization": bad}).status_code == 401


def test_no_token_is_in_the_log(guarded):
    guarded.http.get("/v1/models", headers=bearer("read"))
    guarded.log()
    assert not any(token in line for token in TOKENS.values() for line in guarded.lines)


# -- hosts and origins ------------------------------------------------------------------------------------------


def test_another_host_or_origin_is_refused_on_loopback(shared):
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
        answer = shared.http.get("/v1/models", headers={"Host": host})
        assert (answer.status_code, answer.json()["type"]) == (421, "/problems/misdirected")
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "http://["):
        answer = shared.http.post("/v1/models/site/predict", json={}, headers={"Origin": origin})
        assert (answer.status_code, answer.json()["type"]) == (403, "/problems/cross-origin")
    assert shared.http.get("/v1/models", headers={"Origin": shared.url}).status_code == 200
    port = shared.url.rpartition(":")[2]
    assert shared.http.get("/v1/models", headers={"Host": f"localhost:{port}"}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_browser_asks_for_another_site_is_refused(shared, site):
    """A GET has no header Origin."""
    headers = {"Sec-Fetch-Site": site}
    answer = shared.http.get("/v1/models/site/model", headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (403, "/problems/cross-origin")
    assert (
        shared.http.get("/", headers=headers).status_code == 200
    )  # a link to the page holds no data
    for own in ("same-origin", "none"):
        assert shared.http.get("/v1/models", headers={"Sec-Fetch-Site": own}).status_code == 200


def test_other_machines_need_tokens(tmp_path):
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org"):
        with pytest.raises(InputError, match=r"no token file.*--token-file"):
            ServiceSettings(models=tmp_path, host=host)


def test_another_server_needs_tokens_whatever_its_address(tmp_path, monkeypatch):
    """A client of it may send `Host: localhost`."""
    for settings in (ServiceSettings(models=tmp_path), None):
        monkeypatch.setenv("HEDGEROW_SERVE_MODELS", str(tmp_path))
        with pytest.raises(InputError, match=r"no token file.*HEDGEROW_SERVE_TOKEN_FILE"):
            create_app(settings)
    monkeypatch.setenv("HEDGEROW_SERVE_TOKEN_FILE", str(written(tmp_path, LINES)))
    assert create_app().state.models.folder == tmp_path
    monkeypatch.delenv("HEDGEROW_SERVE_MODELS")
    with pytest.raises(InputError, match="no folder"):
        create_app()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("HEDGEROW_SERVE_MAXROWS", "7", "did you mean 'HEDGEROW_SERVE_MAX_ROWS'"),
        ("HEDGEROW_SERVE_MAX_ROWS", "many", "must be a whole number"),
        ("HEDGEROW_SERVE_MAX_ROWS", "0", "must be above 0"),
        ("HEDGEROW_SERVE_LABEL_TIMEOUT", "soon", "must be a number"),
    ],
)
def test_variables_that_cannot_be_used_are_named(monkeypatch, name, value, told):
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=told):
        create_app()


# -- the file ---------------------------------------------------------------------------------------------------


def written(tmp_path, text, mode=0o600):
    file = tmp_path / "tokens"
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(tmp_path, mode):
    with pytest.raises(InputError, match=f"mode {mode:04o}.*chmod 600"):
        Tokens(written(tmp_path, LINES, mode))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no token"),
        ("# only a comment", "no token"),
        ("short read *", "5 characters"),
        (f"{TOKENS['read']} read", "2 words"),
        (f"{TOKENS['read']} write *", "unknown right 'write'"),
    ],
)
def test_lines_that_cannot_be_used(tmp_path, text, told):
    with pytest.raises(InputError, match=told):
        Tokens(written(tmp_path, text))


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="cannot read the token file"):
        Tokens(tmp_path / "none")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_lines_of_one_token_add_up(tmp_path):
    token = "x" * 20
    tokens = Tokens(written(tmp_path, f"{token} read a\n{token} predict b,c\n"))
    caller = tokens.caller(f"Bearer {token}")
    assert caller is not None
    assert [caller.may("read", "a"), caller.may("read", "b"), caller.may("predict", "c")] == [
        True,
        False,
        True,
    ]
    assert tokens.caller("Bearer " + "y" * 20) is None
