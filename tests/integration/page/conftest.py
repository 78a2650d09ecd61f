"""A real service, a real browser, and everything that the browser asked for or complained about."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.looking import Service, Stream, Watch

from hedgerow import OnlineTransferClassifier, load, split
from hedgerow.live import LiveModel

MISSING = [
    *([] if shutil.which("chromium") else ["Chromium (apt-get install chromium)"]),
    *([] if importlib.util.find_spec("playwright") else ["Playwright (pip install playwright)"]),
]
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
VIOLATIONS = """window.violations = [];
document.addEventListener("securitypolicyviolation", (e) => violations.push(`${e.violatedDirective} ${e.blockedURI}`));
"""


@pytest.fixture(scope="session")
def fitted() -> tuple[OnlineTransferClassifier, Stream]:
    domains = load("digits")
    warmup, rest = split(domains["shifted"], warmup=0.3, seed=0)
    clf = OnlineTransferClassifier().fit_domains([domains["tilted"], domains["faded"]], warmup)
    return clf, Stream(np.asarray(rest.X), np.asarray(rest.y).tolist())


@pytest.fixture(scope="session")
def stream(fitted: tuple[OnlineTransferClassifier, Stream]) -> Stream:
    return fitted[1]


@pytest.fixture
def models(tmp_path: Path, fitted: tuple[OnlineTransferClassifier, Stream]) -> Path:
    LiveModel.create(tmp_path / "digits", fitted[0]).close()
    return tmp_path


@pytest.fixture(scope="session")
def service(
    tmp_path_factory: pytest.TempPathFactory, fitted: tuple[OnlineTransferClassifier, Stream]
) -> Iterator[Service]:
    """One service for all tests that do not end it: each model belongs to one test."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("new", "numbers", "listed", "late", "alarmed", "seen", "explained"):
        LiveModel.create(folder / name, fitted[0]).close()
    service = Service("--models", str(folder)).ready()
    yield service
    assert service.stop() == 0


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    begun: list[Service] = []

    def start(*options: str, port: int = 0) -> Service:
        begun.append(Service(*options, port=port))
        return begun[-1]

    yield start
    for one in begun:
        one.stop()


@pytest.fixture(
    scope="module"
)  # as long as it is open, an event loop runs in which others' tests could not start one
def browser() -> Iterator[Any]:
    if MISSING:
        pytest.skip(f"the page is tested in a browser: install {' and '.join(MISSING)}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGUMENTS
        )
        yield browser
        browser.close()


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def open_page(browser: Any, watch: Watch) -> Iterator[Callable[..., Any]]:
    """Opens a page; at the end of the test nothing may have been asked for elsewhere, and nothing complained about."""
    contexts = []
    pages = []

    def open_(url: str, width: int = 1240, theme: str = "light", reduced: bool = True) -> Any:
        motion = "reduce" if reduced else "no-preference"
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, reduced_motion=motion
        )
        context.add_init_script(VIOLATIONS)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("request", lambda request: watch.requests.append(request.url))
        page.on(
            "console",
            lambda said: (
                watch.complaints.append(said.text) if said.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: watch.complaints.append(str(error)))
        contexts.append(context)
        pages.append(page)
        page.goto(url)
        return page

    yield open_
    for page in pages:
        watch.check(page)
    for context in contexts:
        context.close()
