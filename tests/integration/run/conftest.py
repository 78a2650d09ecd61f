"""Real brokers for runs."""

from __future__ import annotations

import shutil

import pytest
from support.streams import Redis, make


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("run"), 600)


@pytest.fixture(scope="session")
def redis(tmp_path_factory):
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server: apt-get install redis-server")
    server = Redis(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()
