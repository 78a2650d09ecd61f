"""What an operator sets and sees: tokens read again, request ids, log, metrics."""

from __future__ import annotations

import re
import time

ROW = [1.0, 2.0, 3.0]
TOKEN = "a-token-of-the-operator"
SECOND = "another-token-of-the-operator"


def token_file(folder, *tokens):
    file = folder / "tokens"
    file.write_text("".join(f"{token} admin *\n" for token in tokens))
    file.chmod(0o600)
    return file


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_the_callers_request_id_is_kept_if_it_can_stand_in_a_log(shared):
    answer = shared.http.get("/v1/models/nobody", headers={"X-Request-ID": "trace-7.a_b"})
    assert answer.headers["x-request-id"] == "trace-7.a_b"
    assert answer.json()["instance"].endswith("#trace-7.a_b")
    for bad in ("", "a b", "x" * 65, 'a"b', "a\u00e9"):
        answer = shared.http.get("/healthz", headers={"X-Request-ID": bad.encode("latin-1")})
        assert re.fullmatch(r"[0-9a-f]{8}-\d+", answer.headers["x-request-id"])
    [line] = [line for line in shared.log() if line.get("request") == "trace-7.a_b"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["time"])


def test_tokens_are_read_when_their_file_changes_and_a_refused_caller_is_in_the_log(serve, models):
    file = token_file(models.parent, TOKEN)
    service = serve(models, "--token-file", str(file), fresh=True)
    while service.http.get("/readyz").status_code != 200:
        time.sleep(0.05)

    def status(token):
        return service.http.get("/v1/models", headers=bearer(token)).status_code

    def look_until(word):
        end = time.monotonic() + 10
        while not any(word in line for line in service.lines):
            assert time.monotonic() < end
            status(TOKEN)
            time.sleep(0.05)

    assert (status(TOKEN), status(SECOND)) == (200, 401)
    file.write_text("broken")
    look_until("line 1: 1 words")
    assert (status(TOKEN), status(SECOND)) == (200, 401)
    file.unlink()
    look_until("No such file")
    assert (status(TOKEN), status(SECOND)) == (200, 401)
    token_file(models.parent, SECOND)
    look_until("has changed and was read again")
    assert (status(TOKEN), status(SECOND)) == (401, 200)
    service.http.get("/v1/models/site/stats")
    service.http.get("/wp-admin?secret=1")
    refused = [line for line in service.log() if line.get("status") == 401]
    assert {line["address"] for line in refused} == {
        "/v1/models",
        "/v1/models/site/stats",
        "/wp-admin",
    }
    assert {line["client"] for line in refused} == {"127.0.0.1"}
    assert not any("secret" in line or TOKEN in line for line in service.lines)


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
    assert "hedgerow_model_column_shift{" not in text  # of ten events
    body = {"instances": [ROW] * 50}
    service.http.post("/v1/models/site/predict", json=body)
    text = service.http.get("/metrics").text
    shifts = service.http.get("/v1/models/site/stats").json()["shifts"]
    for column, (now, between) in shifts.items():
        for name, shown in (("column_shift", now), ("column_shift_of_sources", between)):
            assert value(f'hedgerow_model_{name}{{column="{column}",model="site"}}') == shown
    assert max(now for now, _ in shifts.values()) > 1  # the same row fifty times
    assert value("process_resident_memory_bytes") > 1e6
    assert re.search(r'hedgerow_build_info\{.*version="[^"]+"', text)
