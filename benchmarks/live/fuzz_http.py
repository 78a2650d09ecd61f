"""Requests made from the OpenAPI document by schemathesis, valid and not, against a real service: all its checks.

    python benchmarks/live/fuzz_http.py --examples 1000      for each operation; the tests run a few

An answer of 500, one that the document does not describe, a wrong request that is accepted or a right one that is
refused is a failure. What a document cannot say is allowed: 409 (a name is taken), 422 for a right request whose rows
do not fit the model, 429, 503.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

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
# its stream never ends by itself; deleting the model that is asked would end the run's meaning
LEFT_OUT = ["GET /v1/models/{name}/events", "DELETE /v1/models/{name}"]


def command(url: str, examples: int, seed: int, config: Path) -> list[str]:
    """schemathesis as a command."""
    left_out = [word for name in LEFT_OUT for word in ("--exclude-name", name)]
    return [
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", f"{url}/openapi.json",
        "--checks", "all", "--max-examples", str(examples), "--seed", str(seed), "--request-timeout", "30",
        "--workers", "1", "--no-color", "--generation-database", "none", *left_out,
    ]  # fmt: skip


def fuzz(url: str, examples: int, seed: int) -> tuple[int, str]:
    """Its exit code and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "schemathesis.toml"
        config.write_text(CONFIG)
        asked = command(url, examples, seed, config)
        done = subprocess.run(asked, capture_output=True, text=True, cwd=folder)
    return done.returncode, done.stdout + done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--examples", type=int, default=1000, help="for each operation and phase")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from serving import Service, fitted

    from hedgerow.live import LiveModel

    with tempfile.TemporaryDirectory() as folder:
        for name, names in (("site", True), ("0", False)):
            LiveModel.create(Path(folder) / name, fitted(names)).close()
        service = Service(Path(folder)).ready()
        code, text = fuzz(service.url, asked.examples, asked.seed)
        print(text)
        inside = [line for line in service.log() if line.get("status") == 500]
        print(f"{sum('request' in line for line in service.log())} requests, {len(inside)} answers of 500")
        ended = service.stop()
    return int(bool(code or inside or ended))


if __name__ == "__main__":
    sys.exit(main())
