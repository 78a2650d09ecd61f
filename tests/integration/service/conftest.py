"""Services and models for the tests of this folder."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack

import httpx
import pytest
from support.serving import Service, fitted

from hedgerow.live import LiveModel


@pytest.fixture(scope="session")
def clf():
    return fitted()


@pytest.fixture
def models(tmp_path, clf):
    """A folder with one live model, `site`."""
    folder = tmp_path / "models"
    folder.mkdir()
    LiveModel.create(folder / "site", clf).close()
    return folder


@pytest.fixture
def serve():
    with ExitStack() as stack:

        def start(models, *options, fresh=False, before=()):
            service = Service(models, *options, fresh=fresh, before=before)
            stack.callback(service.stop, signal.SIGKILL)
            return service

        yield start


@pytest.fixture(scope="session")
def shared(tmp_path_factory, clf):
    """One service for tests that leave nothing behind but events: `site` has names, `bare` has none."""
    folder = tmp_path_factory.mktemp("models")
    LiveModel.create(folder / "site", clf).close()
    LiveModel.create(folder / "bare", fitted(names=False)).close()
    service = Service(folder).ready()
    yield service
    assert service.stop() == 0


@pytest.fixture
def with_client():
    """Run work with an application in this process, started as a server would, once its models are open."""

    def run(app, work):
        async def main():
            async with app.router.lifespan_context(app):
                transport = httpx.ASGITransport(app=app)
                async with httpx.AsyncClient(
                    transport=transport, base_url="http://127.0.0.1"
                ) as http:
                    while (await http.get("/readyz")).status_code != 200:
                        await asyncio.sleep(0.01)
                    return await work(http, app.state.models)

        return asyncio.run(main())

    return run
