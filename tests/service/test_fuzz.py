"""Requests made from the OpenAPI document, valid and not: a few of what benchmarks/live/fuzz_http.py sends."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from serving import NAMES, fitted

from hedgerow.live import LiveModel

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "live" / "fuzz_http.py"


def script():
    spec = importlib.util.spec_from_file_location("fuzz_http", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", [0])
def test_every_answer_is_one_that_the_document_describes(serve, tmp_path, seed):
    for name in ("site", "0"):
        LiveModel.create(tmp_path / name, fitted()).close()
    service, fuzz = serve(tmp_path).ready(), script()
    document = service.http.get("/openapi.json").json()
    for asked in ((fuzz.fitting(document, ["site", "0"], NAMES),), (document, fuzz.DELETING)):
        code, text = fuzz.fuzz(service.url, 3, seed, *asked)
        assert code == 0, text
    assert not [line for line in service.log() if line.get("status") == 500]
    assert service.stop() == 0
