"""What an operator sets and sees: TLS, proxies, tokens read again, request ids, log, metrics, webhook, traces."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from hedgerow.core.errors import InputError
from hedgerow.service import ServiceSettings, create_app
from hedgerow.service.models import Models
from hedgerow.service.webhook import post_alarms

ROW = [1.0, 2.0, 3.0]
TOKEN, SECOND = "a-token-of-the-operator", "another-token-of-the-operator"


def token_file(folder, *tokens):
    file = folder / "tokens"
    file.write_text("".join(f"{token} admin *\n" for token in tokens))
    file.chmod(0o600)
    return file


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def raw_answer(service, head):
    """The first bytes of the answer to a request that no client would send."""
    address = urlsplit(service.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as raw:
        raw.sendall(head)
        answer = b""
        while part := raw.recv(65536):
            answer += part
        return answer


def test_a_request_of_two_lengths_is_refused_and_its_connection_closed(shared):
    """A proxy that believes the other length would see a second request in the body."""
    body = b'{"instances": [[1, 2, 3]]}'
    head = b"POST /v1/models/site/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    answer = raw_answer(shared, head + both)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"/problems/malformed" in answer


def test_the_callers_request_id_is_kept_if_it_can_stand_in_a_log(shared):
    answer = shared.http.get("/v1/models/nobody", headers={"X-Request-ID": "trace-7.a_b"})
    assert answer.headers["x-request-id"] == "trace-7.a_b"
    assert answer.json()["instance"].endswith("#trace-7.a_b")
    for bad in ("", "a b", "x" * 65, 'a"b', "a\u00e9"):
        answer = shared.http.get("/healthz", headers={"X-Request-ID": bad.encode("latin-1")})
        assert re.fullmatch(r"[0-9a-f]{8}-\d+", answer.headers["x-request-id"])
    [line] = [line for line in shared.log() if line.get("request") == "trace-7.a_b"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["time"])


def test_tokens_are_read_again_and_a_refused_caller_is_in_the_log(serve, models):
    file = token_file(models.parent, TOKEN)
    service = serve(models, "--token-file", str(file), fresh=True)
    while service.http.get("/readyz").status_code != 200:
        time.sleep(0.05)

    def status(token):
        return service.http.get("/v1/models", headers=bearer(token)).status_code

    def read_again(word):
        service.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 10
        while not any(word in line for line in service.lines):
            assert time.monotonic() < end
            time.sleep(0.05)

    assert (status(TOKEN), status(SECOND)) == (200, 401)
    file.write_text("broken")
    read_again("were not read again")
    assert (status(TOKEN), status(SECOND)) == (200, 401)
    token_file(models.parent, SECOND)
    read_again("were read again")
    assert (status(TOKEN), status(SECOND)) == (401, 200)
    service.http.get("/v1/models/site/stats")
    service.http.get("/wp-admin?secret=1")
    refused = [line for line in service.log() if line.get("status") == 401]
    assert {line["address"] for line in refused} == {"/v1/models", "/v1/models/site/stats", "/wp-admin"}
    assert {line["client"] for line in refused} == {"127.0.0.1"}
    assert not any("secret" in line or TOKEN in line for line in service.lines)


def test_tls_by_certificate_files(serve, models, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    service = serve(models, "--tls-cert", str(cert), "--tls-key", str(key))
    assert service.url.startswith("https://")
    context = ssl.create_default_context(cafile=str(cert))
    with httpx.Client(base_url=service.url, verify=context) as http:
        assert http.get("/healthz").json() == {"status": "alive"}
    with pytest.raises(httpx.HTTPError):
        httpx.get(service.url.replace("https", "http"))
    service.process.send_signal(signal.SIGHUP)  # with TLS and no tokens
    assert service.stop() == 0


def test_tls_files_that_cannot_be_used(serve, models, tmp_path):
    with pytest.raises(InputError, match="both files"):
        ServiceSettings(tls_cert=tmp_path / "cert.pem")
    from hedgerow.service.app import serve as run

    settings = ServiceSettings(port=0, tls_cert=tmp_path / "no.pem", tls_key=tmp_path / "no.key")
    with pytest.raises(InputError, match="cannot read the TLS files"):
        run(models, settings, demo=False, tell=print)


def test_behind_a_proxy(serve, models):
    """The proxy takes the root path away, and says for whom it asks."""
    file = token_file(models.parent, TOKEN)
    options = ("--root-path", "/hedgerow", "--trusted-proxies", "127.0.0.1", "--token-file", str(file))
    service = serve(models, *options)
    for path in ("/healthz", "/", "/models/site", "/static/style.css"):
        assert service.http.get(path).status_code == 200
    assert service.http.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200
    service.http.get("/v1/models", headers={"X-Forwarded-For": "203.0.113.9"})
    assert "203.0.113.9" in {line.get("client") for line in service.log()}
    other = serve(models, "--token-file", str(file))  # that trusts nobody
    other.http.get("/v1/models", headers={"X-Forwarded-For": "203.0.113.9"})
    assert {line.get("client") for line in other.log() if line.get("status") == 401} == {"127.0.0.1"}


def test_metrics_of_alarms_delays_calibration_process_and_build(serve, models):
    service = serve(models).ready()
    body = {"instances": [ROW] * 10, "ids": [f"m{i}" for i in range(10)]}
    service.http.post("/v1/models/site/predict", json=body)
    time.sleep(0.3)
    labels = [{"id": f"m{i}", "label": "up"} for i in range(10)]
    service.http.post("/v1/models/site/label", json={"labels": labels})
    text = service.http.get("/metrics").text

    def value(name):
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)[1])

    assert 0.2 < value('hedgerow_model_label_delay_seconds{model="site"}') < 20
    assert 0 <= value('hedgerow_model_calibration_error{model="site"}') <= 1
    assert value('hedgerow_model_label_age_seconds{model="site"}') < 20
    assert value('hedgerow_model_drift_alarms_total{model="site"}') == 0
    for rule in ("drift", "label-starvation", "negative-transfer", "one-sided-class"):
        assert value(f'hedgerow_model_alarms{{model="site",rule="{rule}"}}') == 0
    for source in ("s0", "s1"):
        assert f'hedgerow_model_discrepancy{{model="site",source="{source}"}}' in text
    assert value("process_resident_memory_bytes") > 1e6
    assert re.search(r'hedgerow_build_info\{.*version="[^"]+"', text)


class Receiver:
    """A server that takes what a webhook posts, and refuses the first so many requests."""

    def __init__(self, refuse=0):
        self.bodies, receiver = [], self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                receiver.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(500 if len(receiver.bodies) <= refuse else 204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/alarms"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def test_alarms_are_posted_when_they_begin_and_end_until_they_are_taken(models):
    receiver = Receiver(refuse=1)

    async def main():
        opened = Models(models, ServiceSettings())
        opened.start()
        await opened._opening
        task = asyncio.create_task(post_alarms(opened, receiver.url, every=0.05))
        live = opened["site"].live
        live.predict_then_learn(np.array([ROW] * 2), ["up", "down"])
        await asyncio.to_thread(live.predict_many, np.array([ROW] * 250))
        await until(lambda: len(receiver.bodies) >= 2)
        live.predict_then_learn(np.array([ROW]), ["up"])
        await until(lambda: len(receiver.bodies) >= 3)
        opened.stopping.set()
        await task
        await opened.close()

    async def until(happened):
        async with asyncio.timeout(20):
            while not happened():
                await asyncio.sleep(0.02)

    asyncio.run(main())
    receiver.close()
    first, again, last = receiver.bodies
    told = [[(c["model"], c["state"], c["alarm"]["rule"]) for c in body["changes"]] for body in receiver.bodies]
    assert told[0] == told[1] == [("site", "raised", "label-starvation")]
    assert told[2] == [("site", "cleared", "label-starvation")]
    assert first["time"] < again["time"] < last["time"]


def test_an_address_that_never_takes_an_alarm_is_given_up(models, monkeypatch, caplog):
    monkeypatch.setattr("hedgerow.service.webhook.TRIES", 3)
    receiver = Receiver(refuse=1000)

    async def main():
        opened = Models(models, ServiceSettings())
        opened.start()
        await opened._opening
        live = opened["site"].live
        live.predict_then_learn(np.array([ROW] * 2), ["up", "down"])
        await asyncio.to_thread(live.predict_many, np.array([ROW] * 250))
        task = asyncio.create_task(post_alarms(opened, receiver.url, every=0.01))
        await asyncio.sleep(2)
        opened.stopping.set()
        await task
        await opened.close()

    asyncio.run(main())
    receiver.close()
    assert len(receiver.bodies) == 3
    assert "1 alarms are given up" in caplog.text


@pytest.mark.parametrize("address", ["ftp://x/", "no-address", "file:///etc/passwd", "http://"])
def test_a_webhook_is_an_address_of_http(address):
    with pytest.raises(InputError, match="webhook"):
        ServiceSettings(webhook=address)


def test_spans_of_requests(models):
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    app = create_app(models)

    async def main():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            parent = f"00-{'a' * 32}-{'b' * 16}-01"
            await http.get("/v1/models/nobody", headers={"traceparent": parent})

    asyncio.run(main())
    [span] = exporter.get_finished_spans()
    assert span.name == "GET /v1/models/{name}"
    assert span.attributes["http.response.status_code"] == 404
    assert f"{span.context.trace_id:x}" == "a" * 32
