"""Raw attacks, on `hedgerow serve` and on the application under uvicorn behind nginx, as deploy/nginx.conf has them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.command import environment
from support.laws import law
from support.serving import Service

from hedgerow.client import Client
from hedgerow.core.errors import InputError
from hedgerow.fleet import Fleet
from hedgerow.live import LiveModel

SAMPLE = (Path(__file__).parents[3] / "deploy" / "nginx.conf").read_text(encoding="utf-8")
TOKEN = "a-token-that-may-do-everything"
ROW = {"instances": [[1.0, 2.0, 3.0]]}
BODY = b'{"instances": [[1, 2, 3]]}'
MOST = 2000  # bytes of a JSON body
SECONDS = 4  # for a header or a body


@dataclass
class Door:
    """Where callers reach a service, and whether nginx is in front of it."""

    host: str
    port: int
    root: str
    http: httpx.Client
    context: ssl.SSLContext | None = None
    lines: list[str] | None = None

    def connect(self):
        raw = socket.create_connection((self.host, self.port), timeout=15)
        return (
            raw
            if self.context is None
            else self.context.wrap_socket(raw, server_hostname=self.host)
        )

    def head(self, *headers, call="POST", path="/v1/models/site/predict"):
        lines = [
            f"{call} {self.root}{path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "Content-Type: application/json",
        ]
        return "\r\n".join([*lines, f"Authorization: Bearer {TOKEN}", *headers, "", ""]).encode()

    def answers(self, sent):
        """The status of every answer until the other side closes, or says nothing more."""
        with closing(self.connect()) as raw:
            raw.settimeout(SECONDS + 0.5)
            received = b""
            try:
                raw.sendall(sent)
                while part := raw.recv(65536):
                    received += part
            except OSError:  # nothing more comes, or the other side has closed
                pass
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3})", received)]

    def is_well(self):
        began = time.monotonic()
        assert self.http.post("/v1/models/site/predict", json=ROW).status_code == 200
        assert time.monotonic() - began < 5


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory, clf):
    folder = tmp_path_factory.mktemp("attacked")
    for name in ("direct", "proxied"):
        LiveModel.create(folder / name / "site", clf).close()
        Fleet(clf, path=folder / name / "shops").close()
    tokens = folder / "tokens"
    tokens.write_text(f"{TOKEN} admin *\n")
    tokens.chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def direct(folder):
    options = (
        "--token-file",
        str(folder / "tokens"),
        "--max-body",
        str(MOST),
        "--request-timeout",
        str(SECONDS),
    )
    service = Service(folder / "direct", *options).ready()
    service.http.headers["Authorization"] = f"Bearer {TOKEN}"
    address = httpx.URL(service.url)
    yield Door(address.host, address.port, "", service.http, lines=service.lines)
    assert service.stop() == 0


@pytest.fixture(scope="module")
def proxied(folder):
    """The commands of deploy/nginx.conf, with free ports, a certificate of its own and shorter times."""
    if shutil.which("nginx") is None:
        pytest.skip("no nginx: apt-get install nginx")
    behind = free_port()
    port = free_port()
    variables = {
        "HEDGEROW_SERVE_MODELS": str(folder / "proxied"),
        "HEDGEROW_SERVE_TOKEN_FILE": str(folder / "tokens"),
        "HEDGEROW_SERVE_MAX_BODY": str(MOST),
        "HEDGEROW_SERVE_REQUEST_TIMEOUT": str(SECONDS),
    }
    said = (
        re.search(r"#   uvicorn (.*?)\n#\n", SAMPLE, re.DOTALL)[1]
        .replace("\\\n#", "")
        .replace("8080", str(behind))
    )
    config = written(folder, behind, port)
    log = folder / "log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", "uvicorn", *shlex.split(said)]
        service = subprocess.Popen(command, env=environment(**variables), stdout=out, stderr=out)
        nginx = subprocess.Popen(
            ["nginx", "-c", str(config), "-p", str(folder), "-g", "daemon off;"], stderr=out
        )
    context = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(
        base_url=f"https://127.0.0.1:{port}/hedgerow", verify=context, headers=headers, timeout=60
    ) as http:
        end = time.monotonic() + 60
        while not is_ready(http):
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield Door("127.0.0.1", port, "/hedgerow", http, context)
    for process in (nginx, service):
        process.terminate()
        process.wait(30)
    text = log.read_text()
    assert "Traceback" not in text
    assert '"event": "ended"' in text


def written(folder, behind, port):
    """The sample for this test, and the certificate that it names."""
    cert = folder / "cert.pem"
    key = folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=127.0.0.1"]
    subprocess.run(
        [*command, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True
    )
    kept = "".join(
        f"{kind}_temp_path {folder}/temp-{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    changes = {
        "worker_processes auto;": f"{user} worker_processes 1; pid {folder}/pid; error_log stderr;",
        "worker_rlimit_nofile 8192;": "",
        "worker_connections 2048;": "worker_connections 128;",
        "server_tokens off;": f"server_tokens off; access_log off; {kept}",
        "server 127.0.0.1:8080;": f"server 127.0.0.1:{behind};",
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "/etc/hedgerow/cert.pem": str(cert),
        "/etc/hedgerow/key.pem": str(key),
        "client_header_timeout 15s;": f"client_header_timeout {SECONDS}s;",
        "client_body_timeout 30s;": f"client_body_timeout {SECONDS}s;",
    }
    text = SAMPLE
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    config = folder / "nginx.conf"
    config.write_text(text)
    return config


def is_ready(http):
    try:
        return http.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(params=["direct", "proxied"])
def door(request):
    found = request.getfixturevalue(request.param)
    yield found
    found.is_well()


def length(body):
    return f"Content-Length: {len(body)}"


CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding: identity, chunked",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Content-Length: 5", "Content-Length: 26"),
        ("Content-Length: +26",),
        ("Content-Length: -1",),
        ("Content-Length: 0x1a",),
        ("Content-Length : 26",),
        ("Content-Length\x00: 26",),
    ],
)
def test_a_body_of_two_lengths_or_of_none_is_refused_once(door, headers):
    """Whoever believes the other length would see a second request in the body."""
    smuggled = door.head(call="DELETE", path="/v1/models/site")
    statuses = door.answers(door.head(*headers) + CHUNKED + smuggled)
    assert len(statuses) <= 1
    assert all(status in (400, 413, 415, 422, 501) for status in statuses)
    assert door.http.get("/v1/models/site").status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00" * 100 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /" + b"a" * 600_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 600_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 100_000 + b"\r\n",
    ],
    ids=["zeros", "word", "version", "header", "tls", "address", "long", "many"],
)
def test_what_is_no_request_is_refused_and_harms_nobody(door, sent):
    assert set(door.answers(sent)) <= {400, 404, 408, 414, 431, 494, 505}


@pytest.mark.parametrize("size", [b"zz", b"-1", b"1" * 40])
def test_a_chunk_of_no_size_is_refused(door, size):
    statuses = door.answers(door.head("Transfer-Encoding: chunked") + size + b"\r\n{}\r\n0\r\n\r\n")
    assert all(status in (400, 413) for status in statuses)
    assert len(statuses) == 1


def test_a_body_that_is_too_large_is_refused_whatever_its_header_says(door):
    large = b" " * 2 * MOST
    assert door.answers(door.head(length(large)) + large)[0] == 413
    assert (
        door.answers(
            door.head("Transfer-Encoding: chunked") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(large), large)
        )[0]
        == 413
    )


def test_requests_in_a_row_are_answered_in_order(door):
    row = door.head(length(BODY)) + BODY
    nothing = door.head(call="GET", path="/v1/models/nobody")
    last = door.head("Connection: close", call="GET", path="/healthz")
    assert door.answers(row + nothing + row + last) == [200, 404, 200, 200]


def test_slow_bodies_headers_and_readers_hold_up_nobody(door):
    body, header, reader = (door.connect() for _ in range(3))
    with closing(body), closing(header), closing(reader):
        body.sendall(door.head("Content-Length: 100") + b"{")
        header.sendall(b"GET /healthz HTT")
        reader.sendall(door.head(call="GET", path="/v1/models/site/model") * 50)
        door.is_well()
        body.settimeout(10)
        began = time.monotonic()
        said = body.recv(4096)
        assert not said or b" 408 " in said
        assert 0.5 * SECONDS < time.monotonic() - began + 1 < 4 * SECONDS


# -- names and keys in addresses ---------------------------------------------------------------------------------


HOSTILE = (
    ".",
    "..",
    "../..",
    "a/b",
    "/",
    "%2e%2e",
    "%",
    "%00",
    "?confirm=shops",
    "#",
    "\\",
    "\x00",
    " ",
    "\n",
    ";",
    "7",
)
KEYS = st.sampled_from(HOSTILE) | st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)


@pytest.mark.parametrize("way", ["direct", "proxied"])
@given(keys=st.lists(KEYS, min_size=1, max_size=8, unique=True))
@settings(law(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_key_that_is_learned_and_forgotten(request, clf, way, keys):
    """As in the library: nothing else is touched by it."""
    door = request.getfixturevalue(way)
    own = {"base_url": str(door.http.base_url), "token": TOKEN, "verify": door.context or True}
    X = np.random.default_rng(len(keys)).normal(size=(len(keys) + 1, 3))
    y = ["up" if x[0] < 0 else "down" for x in X]
    kept = [*keys, 7]
    with Client(**own) as client, Fleet(clf) as twin:
        fleet = client.fleet("shops")
        fleet.forget(7)

        def agree():
            found = [[*one.probabilities.values()] for one in fleet.predict(kept, X, explain=True)]
            assert found == twin.predict_proba(kept, X).tolist()

        for _ in range(2):  # on a key that is new, and on one that was forgotten
            fleet.learn(kept, X, y)
            twin.learn(kept, X, y)
            agree()
            for key in keys:
                fleet.forget(key)
                twin.forget(key)
            agree()
        assert fleet.stats()["rows_stored"] == twin.stats()["rows_stored"]


def test_an_address_that_was_cut_short_removes_nothing(door):
    """Whoever on the way makes `a/..` of it: a client, a proxy, a server."""
    for what in ("models/site", "fleets/shops"):
        paths = (
            what,
            f"{what}/keys/..",
            f"{what}/keys/%2e%2e",
            f"{what}/keys/..%2f",
            f"{what}/",
            f"models/x/../../{what}",
        )
        for path in paths:
            for query in ("", "?confirm=", "?confirm=.."):
                sent = door.head("Connection: close", call="DELETE", path=f"/v1/{path}{query}")
                [status] = door.answers(sent)
                assert status in (400, 404, 405, 422), (path, query)
        assert door.http.get(f"/v1/{what}").json()["ready"]
    with Client(str(door.http.base_url)) as client:
        for name in ("..", ".", "a/b", "a%2Fb", "shops?confirm=shops", "", "a" * 65):
            with pytest.raises(InputError, match="a name has up to 64"):
                client.fleet(name)
            with pytest.raises(InputError, match="a name has up to 64"):
                client.model(name)


# -- what nginx is there for -------------------------------------------------------------------------------------


def test_nginx_ends_a_header_that_does_not_come(proxied):
    with closing(proxied.connect()) as raw:
        raw.sendall(b"GET /healthz HTT")
        raw.settimeout(4 * SECONDS)
        said = raw.recv(4096)
        assert not said or b" 408 " in said


def test_idle_connections_leave_room_for_a_request_behind_nginx(proxied):
    """More of them than nginx may have."""
    idle = [socket.create_connection((proxied.host, proxied.port)) for _ in range(300)]
    for _ in range(10):
        began = time.monotonic()
        with httpx.Client(base_url=proxied.http.base_url, verify=proxied.context) as http:
            assert http.get("/healthz").status_code == 200
        assert time.monotonic() - began < 5
    for each in idle:
        each.close()


def test_the_root_path_tls_and_the_address_of_the_client_come_through(proxied, folder):
    for path in ("/healthz", "/", "/models/site", "/static/style.css", "/openapi.json"):
        assert proxied.http.get(path).status_code == 200
    own = f"https://{proxied.host}:{proxied.port}"
    assert proxied.http.get("/v1/models", headers={"Origin": own}).status_code == 200
    assert (
        proxied.http.get("/v1/models", headers={"Origin": "https://evil.example"}).status_code
        == 403
    )
    assert httpx.get(f"http://{proxied.host}:{proxied.port}/healthz").status_code == 400
    elsewhere = httpx.HTTPTransport(verify=proxied.context, local_address="127.0.0.9")
    with httpx.Client(transport=elsewhere, base_url=proxied.http.base_url) as http:
        assert http.get("/v1/models", headers={"X-Forwarded-For": "203.0.113.9"}).status_code == 401
    time.sleep(0.5)  # the log is written a little later
    text = (folder / "log").read_text()
    assert '"client": "127.0.0.9"' in text
    assert "203.0.113.9" not in text


def test_a_model_goes_up_behind_nginx_and_its_address_is_the_proxys(proxied, clf):
    answer = proxied.http.put("/v1/models/sent", content=clf.to_bytes())
    assert (answer.status_code, answer.headers["location"]) == (201, "/hedgerow/v1/models/sent")
    assert proxied.http.delete("/v1/models/sent", params={"confirm": "sent"}).status_code == 204
