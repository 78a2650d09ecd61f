"""The page by keyboard, with a screen reader, on a phone, in either theme, with a token, after a restart."""

from __future__ import annotations

from typing import Any

import pytest
from support.looking import axe, wait_for

TOKEN = "a-token-that-is-long-enough"
FOCUSABLE = "a[href], button, input, textarea, summary, [tabindex='0']"
VISIBLE = f"""() => [...document.querySelectorAll("{FOCUSABLE}")].filter(node => node.checkVisibility()).length"""
FOCUSED = """() => {
  const node = document.activeElement, style = getComputedStyle(node);
  window.reached ??= new Set();
  if (node === document.body || reached.has(node)) return null;
  reached.add(node);
  return {tag: node.tagName, id: node.id, outline: parseFloat(style.outlineWidth), style: style.outlineStyle};
}"""


@pytest.fixture(scope="module")
def seen(service: Any, stream: Any) -> Any:
    """A service whose model has seen something, has labels that wait, and raises an alarm."""
    service.post("seen", "predict-then-learn", stream.take(60))
    service.post("seen", "predict", {"instances": stream.take(230)["instances"]})
    return service


def settled(page: Any) -> None:
    wait_for(page, "#connection", "live")
    page.wait_for_function(
        "() => document.querySelectorAll('#latest-rows tr, #rows tr').length > 0"
    )


@pytest.mark.parametrize("width", [1240, 360])
@pytest.mark.parametrize("path", ["/", "/models/seen"])
def test_axe_finds_nothing(seen, open_page, path, width):
    page = open_page(seen.url + path, width=width)
    settled(page)
    for summary in page.query_selector_all("summary"):
        summary.click()
    assert axe(page) == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_the_keyboard_reaches_every_control_and_the_focus_is_seen(seen, open_page):
    page = open_page(f"{seen.url}/models/seen")
    settled(page)
    reached = []
    while True:
        page.keyboard.press("Tab")
        now = page.evaluate(FOCUSED)
        if now is None:
            break
        reached.append(now)
    assert len(reached) == page.evaluate(VISIBLE)
    assert [one for one in reached if one["outline"] < 2 or one["style"] == "none"] == []
    assert {"theme", "all-experts"} <= {one["id"] for one in reached}


def test_theme_and_tables_by_keyboard(seen, open_page):
    page = open_page(f"{seen.url}/models/seen")
    settled(page)
    background = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.focus("#theme")
    page.keyboard.press("Enter")
    dark = page.evaluate(background)
    assert dark != light
    assert page.inner_text("#theme") == "Light theme"
    page.reload()
    settled(page)
    assert page.evaluate(background) == dark
    assert page.query_selector("#weights table") is None
    page.focus("#weights summary")
    page.keyboard.press("Enter")
    page.wait_for_selector("#weights tbody tr")
    assert page.get_attribute("#weights .plot", "role") == "img"


def test_the_summary_is_polite_and_not_chatty(service, stream, open_page):
    service.post("listed", "predict-then-learn", stream.take(5))
    page = open_page(f"{service.url}/models/listed")
    settled(page)
    page.wait_for_function("() => document.querySelector('#summary').textContent !== ''")
    said = page.text_content("#summary")
    assert page.get_attribute("#summary", "aria-live") == "polite"
    for _ in range(3):
        service.post("listed", "predict-then-learn", stream.take(5))
        wait_for(page, "#events", str(service.get("listed", "stats")["events"]))
    assert page.text_content("#summary") == said


@pytest.mark.slow
def test_the_page_asks_for_a_token_and_comes_back_by_itself_after_a_restart(
    models, serve, stream, open_page, watch, tmp_path
):
    watch.expected = "401|503|ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY"
    file = tmp_path.parent / f"{tmp_path.name}.tokens"
    file.write_text(f"{TOKEN} read,learn digits\n")
    file.chmod(0o600)
    options = ("--models", str(models), "--token-file", str(file))
    first = serve(*options).ready()
    page = open_page(f"{first.url}/models/digits")
    page.wait_for_selector("#token-form")
    assert page.evaluate("() => document.activeElement.id") == "token"
    assert axe(page) == []
    page.keyboard.type("not-the-right-one-at-all")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=The token was not accepted")
    page.fill("#token", TOKEN)
    page.click("text=Use it")
    wait_for(page, "#connection", "live")
    kept = "() => [JSON.stringify({...localStorage}), document.cookie, JSON.stringify({...sessionStorage})]"
    local, cookie, session = page.evaluate(kept)
    assert TOKEN in session
    assert TOKEN not in local + cookie

    first.http.headers["authorization"] = f"Bearer {TOKEN}"
    first.post("digits", "predict-then-learn", stream.take(5))
    wait_for(page, "#labels", "5")
    assert first.stop() == 0
    wait_for(page, "#connection", "connection lost, trying again")
    again = serve(*options, port=first.port).ready()
    wait_for(page, "#connection", "live")
    again.http.headers["authorization"] = f"Bearer {TOKEN}"
    again.post("digits", "predict-then-learn", stream.take(5))
    wait_for(page, "#labels", "10")
    page.goto(again.url)
    page.wait_for_selector("#rows tr[data-name=digits]")
    page.evaluate("() => sessionStorage.clear()")
    page.goto(again.url.replace("://", f"://x:{TOKEN}@"))  # no request may have such an address
    page.wait_for_selector("#rows tr[data-name=digits]")


def test_a_model_that_is_not_there(service, open_page, watch):
    watch.expected = "404"
    page = open_page(f"{service.url}/models/nobody")
    wait_for(page, "#connection", "there is no model 'nobody'")
