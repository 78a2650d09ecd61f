"""Requests made from the OpenAPI document by schemathesis, valid and not, against a real service: all its checks.

    python benchmarks/live/fuzz_http.py --examples 1000      for each operation; the tests run a few

An answer of 500, one that the document does not describe, a wrong request that is accepted or a right one that is
refused is a failure. What a document cannot say is allowed: 409 (a name is taken), 422 for a right request whose rows
do not fit the model, 429, 503.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
# a stream of events never ends by itself; models are deleted in a run of its own, after the others
LEFT_OUT = [
    word for name in ("GET /v1/models/{name}/events", "DELETE /v1/models/{name}") for word in ("--exclude-name", name)
]
DELETING = ["--include-path", "/v1/models/{name}"]
NUMBER = {"type": "number"}


def fitting(document: dict[str, Any], models: list[str], names: list[str]) -> dict[str, Any]:
    """The document as these models would have it: their names, and instances that fit them."""
    rows = {"type": "array", "items": NUMBER, "minItems": len(names), "maxItems": len(names)}
    named = {"type": "object", "required": names, "properties": dict.fromkeys(names, NUMBER)}
    for body in ("PredictRequest", "LabelledInstances"):
        document["components"]["schemas"][body]["properties"]["instances"]["items"] = {"anyOf": [rows, named]}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                if parameter["name"] == "name" and "{name}" in path:
                    parameter["schema"] = {"type": "string", "enum": models}
    return document


def fuzz(
    url: str, examples: int, seed: int, document: dict[str, Any] | None = None, which: Sequence[str] = LEFT_OUT
) -> tuple[int, str]:
    """schemathesis' exit code and what it printed; the service's own document unless another is given."""
    with tempfile.TemporaryDirectory() as folder:
        config, schema = Path(folder) / "schemathesis.toml", f"{url}/openapi.json"
        config.write_text(CONFIG)
        if document is not None:
            schema = str(Path(folder) / "openapi.json")
            Path(schema).write_text(json.dumps(document))
        asked = [
            sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", schema, "--url", url,
            "--checks", "all", "--max-examples", str(examples), "--seed", str(seed), "--request-timeout", "30",
            "--workers", "1", "--no-color", "--generation-database", "none", *which,
        ]  # fmt: skip
        done = subprocess.run(asked, capture_output=True, text=True, cwd=folder)
    return done.returncode, done.stdout + done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--examples", type=int, default=1000, help="for each operation and phase")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    import httpx
    from serving import NAMES, Service, fitted

    from hedgerow.live import LiveModel

    with tempfile.TemporaryDirectory() as folder:
        for name in ("site", "0"):
            LiveModel.create(Path(folder) / name, fitted()).close()
        service = Service(Path(folder)).ready()
        document = fitting(httpx.get(f"{service.url}/openapi.json").json(), ["site", "0"], NAMES)
        runs = [fuzz(service.url, asked.examples, asked.seed, each) for each in (None, document)]
        runs.append(fuzz(service.url, asked.examples, asked.seed, document, DELETING))
        print("\n".join(text for _, text in runs))
        lines = service.log()
        inside = [line for line in lines if line.get("status") == 500]
        print(f"{sum('request' in line for line in lines)} requests, {len(inside)} answers of 500")
        ended = service.stop()
    return int(any(code for code, _ in runs) or bool(inside or ended))


if __name__ == "__main__":
    sys.exit(main())
