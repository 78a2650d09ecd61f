"""Services and models for the tests of this folder."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

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

        def start(models: Path, *options: str, fresh: bool = False, before: Sequence[str] = ()) -> Service:
            service = Service(models, *options, fresh=fresh, before=before)
            stack.callback(service.stop, signal.SIGKILL)
            return service

        yield start


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, clf: OnlineTransferClassifier) -> Iterator[Service]:
    """One service for tests that leave nothing behind but events: `site` has names, `bare` has none."""
    folder = tmp_path_factory.mktemp("models")
    LiveModel.create(folder / "site", clf).close()
    LiveModel.create(folder / "bare", fitted(names=False)).close()
    service = Service(folder).ready()
    yield service
    assert service.stop() == 0
