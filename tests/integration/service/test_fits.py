"""Fits in the background: files go up, a model goes live; a job can be followed, cancelled, and fail with a reason."""

from __future__ import annotations

import json
import signal
import time

import numpy as np
import pytest
from support.serving import NAMES, table

from hedgerow.core.errors import InputError
from hedgerow.service.worker import JOB, fit

LABEL = {"label": "y"}


def csv(n, shift, seed, label=True, columns=NAMES):
    X, y = table(n, shift, seed)
    rows = [",".join([*columns, *(["y"] if label else [])])]
    rows += [",".join([*map(repr, x.tolist()), *([str(k)] if label else [])]) for x, k in zip(X, y, strict=True)]
    return "\n".join(rows).encode()


def sources(count=2, n=40):
    return [("sources", (f"site-{i}.csv", csv(n, 0.2 * i, i))) for i in range(count)]


def followed(service, answer, until=("done", "failed", "cancelled")):
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
    end = time.monotonic() + 60
    while job["state"] not in until:
        assert time.monotonic() < end
        time.sleep(0.1)
        job = service.http.get(f"/v1/jobs/{job['id']}").json()
    return job


def test_a_fit_goes_live(shared):
    files = [*sources(), ("unlabelled", ("new.csv", csv(30, 1.0, 9, label=False)))]
    data = {**LABEL, "method": "homotl-1", "options": '{"C": 2.0, "reading": "authors"}'}
    answer = shared.http.post("/v1/models/fitted/fit", files=files, data=data)
    taken = shared.http.post("/v1/models/fitted/fit", files=sources(), data=LABEL)
    assert taken.status_code == 409
    assert shared.http.get("/v1/models/fitted").json()["ready"] is False
    begun = followed(shared, answer, until=("running", "done"))
    assert (begun["state"], begun["text"]) != ("running", "waiting for its turn")
    job = followed(shared, answer)
    assert (job["state"], job["progress"], job["error"]) == ("done", 1.0, None)
    about = shared.http.get("/v1/models/fitted").json()
    assert (about["method"], about["sources"], about["feature_names"]) == ("homotl-1", ["site-0", "site-1"], NAMES)
    assert shared.http.post("/v1/models/fitted/predict", json={"instances": [[1, 2, 3]]}).status_code == 200
    over = shared.http.delete(f"/v1/jobs/{job['id']}")
    assert (over.status_code, over.json()["type"]) == (409, "/problems/finished")
    assert job["id"] in [each["id"] for each in shared.http.get("/v1/jobs").json()["jobs"]]
    shared.http.delete("/v1/models/fitted")


def test_a_fit_that_fails_says_why(shared):
    numbers = b"".join(b"%d,%s\n" % (i * i, b"up" if i % 2 else b"down") for i in range(12))
    files = [("sources", ("a.csv", b"width,y\n" + numbers + b"wide,down\n"))]
    job = followed(shared, shared.http.post("/v1/models/failing/fit", files=files, data=LABEL))
    assert job["state"] == "failed"
    assert "line 14, column 'width': 'wide' is not a number" in job["error"]
    assert str(shared.models) not in job["error"]
    assert shared.http.get("/v1/models/failing").status_code == 404


@pytest.mark.parametrize(
    ("file", "content", "job", "told"),
    [
        ("a.csv", csv(40, 0.0, 0), {"label": "kind"}, "kind"),
        ("a.csv", csv(40, 0.0, 0), {"options": {"colour": 3}}, "unknown option 'colour'"),
        ("a.csv", csv(40, 0.0, 0), {"options": {"method": "pa"}}, "unknown option 'method'"),
        ("a.npz", b"PK no archive", {}, "my file"),
        ("a.mat", b"MATLAB no file", {}, "my file"),
        ("a.parquet", b"PAR1", {}, "my file"),
    ],
)
def test_the_worker_says_what_is_wrong(tmp_path, file, content, job, told):
    (tmp_path / file).write_bytes(content)
    source = {"file": file, "name": "my file"}
    whole = {"sources": [source], "unlabelled": None, "label": "y", "method": "paio", "options": {}, **job}
    (tmp_path / JOB).write_text(json.dumps(whole))
    with pytest.raises(InputError, match=told) as found:
        fit(tmp_path)
    assert str(tmp_path) not in str(found.value)


@pytest.mark.parametrize(
    ("files", "data", "field"),
    [
        ([("unlabelled", ("a.csv", b"a\n1\n"))], LABEL, "sources"),
        (sources(), {}, "label"),
        (sources(), {**LABEL, "method": "magic"}, "method"),
        (sources(), {**LABEL, "options": "[1]"}, "options"),
        (sources(), {**LABEL, "options": "{"}, "options"),
        (sources(), {**LABEL, "colour": "red"}, "colour"),
        ([("sources", ("evil.pkl", b"x"))], LABEL, "sources[0]"),
        ([("sources", ("../../evil", b"x"))], LABEL, "sources[0]"),
    ],
)
def test_a_form_that_cannot_be_used_is_named(shared, files, data, field):
    answer = shared.http.post("/v1/models/formed/fit", files=files, data=data)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field


def test_a_form_without_end(shared):
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = shared.http.post("/v1/models/formed/fit", content=b"--x\r\nContent-Disposition: form-d", headers=headers)
    assert answer.status_code in (400, 422)
    answer = shared.http.post("/v1/models/formed/fit", content=b"", headers={"Content-Type": "multipart/form-data"})
    assert answer.status_code == 400


def test_cancel_ends_the_process_and_the_files(serve, models):
    service = serve(models).ready()
    big = [("sources", (f"s{i}.csv", csv(20_000, 0.1 * i, i))) for i in range(2)]
    first = service.http.post("/v1/models/one/fit", files=big, data=LABEL)
    second = service.http.post("/v1/models/two/fit", files=sources(), data=LABEL)
    followed(service, first, until=("running", "done"))
    assert service.http.get(f"/v1/jobs/{second.json()['id']}").json()["state"] == "waiting"
    for answer in (second, first):
        assert service.http.delete(f"/v1/jobs/{answer.json()['id']}").json()["state"] == "cancelled"
    assert service.http.get("/v1/models/one").status_code == 404
    [work] = models.glob(".work*")
    assert not list(work.iterdir())
    third = service.http.post("/v1/models/three/fit", files=big, data=LABEL)
    followed(service, third, until=("running", "done"))
    service.stop(signal.SIGKILL)
    service = serve(models).ready()
    assert service.http.get("/v1/jobs").json() == {"jobs": []}
    assert not (models / "three").exists()
    assert not list(work.iterdir())
    assert np.isfinite(service.http.get("/v1/models/site/stats").json()["bound"])
