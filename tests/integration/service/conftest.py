"""Services and models for the tests of this folder."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.serving import Service, fitted

from hedgerow import OnlineTransferClassifier
from hedgerow.live import LiveModel


@pytest.fixture(scope="session")
def clf() -> OnlineTransferClassifier:
    return fitted()


@pytest.fixture
def models(tmp_path: Path, clf: OnlineTransferClassifier) -> Path:
    """A folder with one live model, `site`."""
    folder = tmp_path / "models"
    folder.mkdir()
    LiveModel.create(folder / "site", clf).close()
    return folder


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    with ExitStack() as stack:

        def start(
            models: Path, *options: str, fresh: bool = False, before: Sequence[str] = ()
        ) -> Service:
            service = Service(models, *options, fresh=fresh, before=before)
            stack.callback(service.stop, signal.SIGKILL)
            return service

        yield start


@pytest.fixture(scope="session")
def shared(
    tmp_path_factory: pytest.TempPathFactory, clf: OnlineTransferClassifier
) -> Iterator[Service]:
    """One service for tests that leave nothing behind but events: `site` has names, `bare` has none."""
    folder = tmp_path_factory.mktemp("models")
    LiveModel.create(folder / "site", clf).close()
    LiveModel.create(folder / "bare", fitted(names=False)).close()
    service = Service(folder).ready()
    yield service
    assert service.stop() == 0


@pytest.fixture
def with_client() -> Callable[..., Any]:
    """Run work with an application in this process, started as a server would, once its models are open."""

    def run(app: Any, work: Callable[..., Any]) -> Any:
        async def main() -> Any:
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
