"""The object that Python gets, and the page: verdict first, figures beside it, nothing from elsewhere, no complaint."""

from __future__ import annotations

import importlib.util
import re
import shutil
from html import escape

import numpy as np
import pytest

from hedgerow import InputError
from hedgerow.comparison.report import report
from hedgerow.comparison.verdict import verdict

FIGURES = ["running-mistakes", "windowed-mistakes", "expert-weights", "reliability", "confusion", "sources"]
MISSING = [
    *([] if shutil.which("chromium") else ["Chromium (apt-get install chromium)"]),
    *([] if importlib.util.find_spec("playwright") else ["Playwright (pip install playwright)"]),
]


@pytest.fixture(scope="module")
def saved(found, tmp_path_factory):
    return found.save(tmp_path_factory.mktemp("report") / "out")


def test_what_python_gets(found):
    import pandas as pd
    from matplotlib.figure import Figure

    assert isinstance(found.rows, pd.DataFrame)
    assert len(found.rows) == 7
    assert set(FIGURES) <= set(found.plots)
    assert all(isinstance(figure, Figure) for figure in found.plots.values())
    shown = found._repr_html_()
    assert shown.startswith(f"<p>{escape(found.verdict)}</p>")
    assert "<table" in shown
    assert "data:image/svg+xml" in shown


def test_the_verdict_says_what_the_rows_say(found):
    table = found.table
    best = table.iloc[0]
    assert table["mistakes"].is_monotonic_increasing
    title = {row["method"]: row["title"] for row in found.records}[best["method"]]
    start = f"{title} makes the fewest mistakes: {best['mistakes']:.1f} % of {best['n']} instances of shifted."
    assert found.verdict.startswith(start)
    behind = table["mistakes"][1] - best["mistakes"]
    assert f"follows, {behind:.1f} points behind" in found.verdict
    worth = found._runs.worths(best["method"])
    assert f"Without the source {worth[0].source} the leader would make" in found.verdict
    assert found.verdict.endswith("The stream was kept in its order in time.")


def test_a_lead_that_is_luck_is_called_so(found):
    """Two methods with the same mistakes cannot be told apart, whatever their names."""
    first = next(row for row in found.records if row["group"] == "compare")
    twins = [{**first, "method": name, "title": name} for name in ("one", "two")]
    other = type(found)(found.task, twins)
    assert "(p = 1.00): not enough to tell the two apart." in verdict(other._runs)


def test_every_figure_shows_its_curves(found):
    """All that is drawn lies within the axes, and mistakes start at zero."""
    for name in ("running-mistakes", "windowed-mistakes"):
        [axes] = found.plots[name].axes
        low, high = axes.get_ylim()
        drawn = np.concatenate([line.get_ydata() for line in axes.lines])
        assert low == 0
        assert drawn.max() <= high <= max(1.5 * drawn.max(), 1)
        assert len(axes.lines) == 3


def test_a_saved_comparison_is_a_folder_of_the_command(found, saved):
    text = saved.read_text(encoding="utf-8")
    assert {path.stem for path in (saved.parent / "figures").glob("*.png")} == set(found.plots)
    assert (saved.parent / "tables" / "methods.csv").read_text(encoding="utf-8").count("\n") == 4
    assert re.search(r"<p[^>]*>(.*?)</p>", text, flags=re.S)[1] == escape(found.verdict)
    assert re.findall(r"<h2>([^<]*)</h2>", text)[-1] == "What was run"
    again = report(saved.parent).read_text(encoding="utf-8")
    assert re.search(r"<p[^>]*>(.*?)</p>", again, flags=re.S)[1] == escape(found.verdict)
    with pytest.raises(InputError, match="holds results already"):
        found.save(saved.parent)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_browser_shows_it_without_complaint(found, saved, theme):
    if MISSING:
        pytest.skip(f"the report is tested in a browser: install {' and '.join(MISSING)}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1240, "height": 900}, color_scheme=theme).new_page()
        requests, complaints = [], []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(saved.as_uri())
        assert page.locator("p").first.inner_text() == found.verdict
        images = page.locator("img")
        assert images.count() == len(found.plots)
        for i in range(images.count()):
            assert images.nth(i).evaluate("image => image.complete && image.naturalWidth") > 200
        first, second = (images.nth(i).bounding_box() for i in (0, 1))
        assert first["y"] == second["y"] < 900  # the curves are beside each other on the first screen
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert complaints == []
        assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
        browser.close()
