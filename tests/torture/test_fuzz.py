"""Model files that are damaged or made up, and requests made from the OpenAPI document, valid and not.

An answer of 500, one that the document does not describe, a wrong request that is accepted or a right one that is
refused is a failure. What a document cannot say is allowed: 409 (a name is taken), 422 for a right request whose rows
do not fit the model, 429, 503.
"""

from __future__ import annotations

import json
import subprocess
import sys

import httpx
import pytest
from support import fuzz_models
from support.streams import NAMES, rows
from torture.harness import Service, size

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.live import LiveModel

# -- model files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", size(["hedgerow", "oddm"], list(fuzz_models.models())))
def test_no_changed_file_is_accepted(model, note):
    """Flipped bits, cut, longer, swapped, overwritten."""
    files = size(1000, 7143)
    result = fuzz_models.run("mutated", model, last=files)
    assert result["wrong"] == []
    assert result["counts"] == {"refused": files}
    note(**result["counts"])


SOME = {"hedgerow": 29, "oddm": 11, "fixed": 17, "arow": 23, "printed": 23, "hedgerow-fresh": 41}


@pytest.mark.parametrize(
    ("model", "step"), size(SOME, dict.fromkeys(fuzz_models.models(), 1)).items()
)
def test_made_up_files_do_no_harm(model, step, note):
    """Refused, or a model that works; the short form takes every so many."""
    result = fuzz_models.run("crafted", model, step=step)
    assert result["wrong"] == []
    assert result["counts"]["refused"] > 100
    assert result["counts"]["crashes"] == 0
    note(**result["counts"])


# -- requests --------------------------------------------------------------------------------------------------------

CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 401, 403, 404, 409, 413, 415, 422, 429, 503]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 503]

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503]

[checks.missing_required_header]
expected-statuses = [400, 401, 403, 404, 415, 421, 422]
"""
# models are deleted in a run of its own, after the others
LEFT_OUT = ("--exclude-name", "DELETE /v1/models/{name}")
DELETING = ("--include-path", "/v1/models/{name}")
MODELS = ["site", "0"]


def test_every_answer_is_one_that_the_document_describes(tmp_path, note):
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    sources = [Domain(f"s{i}", *rows(i, 40, 0.2 * i), feature_names=NAMES) for i in range(2)]
    warmup = Domain("new", rows(7, 30, 1.0)[0], feature_names=NAMES)
    for name in MODELS:
        clf = OnlineTransferClassifier("paio").fit_domains(sources, warmup)
        LiveModel.create(tmp_path / "models" / name, clf).close()
    service = Service(tmp_path / "models", tmp_path / "log").ready()
    try:
        plain = httpx.get(service.url + "/openapi.json").json()
        for document, which in (
            (plain, LEFT_OUT),
            (fitting(plain), LEFT_OUT),
            (fitting(plain), DELETING),
        ):
            (tmp_path / "openapi.json").write_text(json.dumps(document))
            done = subprocess.run(
                [sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run", "openapi.json",
                 "--url", service.url, "--checks", "all", "--max-examples", str(size(3, 250)), "--seed", "0",
                 "--request-timeout", "30", "--workers", "1", "--no-color", "--generation-database", "none", *which],
                capture_output=True, text=True, cwd=tmp_path, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
    finally:
        service.stop()
    lines = [
        json.loads(line)
        for line in (tmp_path / "log").read_text().splitlines()
        if line.startswith("{")
    ]
    assert not [line for line in lines if line.get("status") == 500]
    requests = sum("request" in line for line in lines)
    assert requests > 50
    note(requests=requests)


def fitting(document):
    """The document as these models would have it: their names, and instances that fit them."""
    document = json.loads(json.dumps(document))
    number = {"type": "number"}
    plain = {"type": "array", "items": number, "minItems": len(NAMES), "maxItems": len(NAMES)}
    named = {"type": "object", "required": NAMES, "properties": dict.fromkeys(NAMES, number)}
    for body in ("PredictRequest", "LabelledInstances"):
        document["components"]["schemas"][body]["properties"]["instances"]["items"] = {
            "anyOf": [plain, named]
        }
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                if parameter["name"] == "name" and "{name}" in path:
                    parameter["schema"] = {"type": "string", "enum": MODELS}
    return document
