"""A fitted model in a notebook: a real one is executed, and what it shows is looked at in a real browser."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from sklearn import config_context

from hedgerow import Domain, OnlineTransferClassifier, load, split


@pytest.fixture(scope="module")
def fitted():
    domains = load("digits")
    warmup, stream = split(domains["shifted"], warmup=0.3, seed=0)
    sources = [domains["tilted"], Domain("<b>faded</b>", domains["faded"].X, domains["faded"].y)]
    clf = OnlineTransferClassifier("oddm").fit_domains(sources, warmup)
    clf.predict_then_learn(stream.X[:120], stream.y[:120])
    return clf, stream


def test_a_fitted_model_shows_itself(fitted):
    clf, _ = fitted
    page = clf._repr_html_()
    assert f"{clf.mistakes_} mistakes in 120 labels" in page
    assert f"at most {clf.bound_:.1f}" in page
    count = max(int((clf.weights_.array >= 0.001).sum()), 3)
    assert page.count("<rect") == count + len(clf.source_names_)
    assert (f"and {len(clf.expert_names_) - count} more" in page) == (
        count < len(clf.expert_names_)
    )
    assert clf._repr_mimebundle_()["text/html"] == page


def test_it_is_plain_and_from_nowhere_else(fitted):
    page = fitted[0]._repr_html_()
    assert "&lt;b&gt;faded&lt;/b&gt;" in page
    assert "<b>faded</b>" not in page
    assert not re.search(r"<script|https?:|url\(|\son\w+=|@import", page)


def test_showing_changes_nothing(fitted):
    clf, _ = fitted
    before = clf.to_bytes()
    clf._repr_html_()
    clf.plot()
    assert clf.to_bytes() == before


def test_scikit_learns_diagram_is_still_there(fitted):
    clf, _ = fitted
    assert "sk-" in clf.diagram()._repr_html_()
    assert "sk-" in OnlineTransferClassifier()._repr_html_()
    with config_context(display="text"):
        assert not hasattr(clf, "_repr_html_")
        assert set(clf._repr_mimebundle_()) == {"text/plain"}


def test_before_any_label_it_says_so(fitted):
    domains = load("digits")
    clf = OnlineTransferClassifier("homotlms").fit_domains([domains["thin"]])
    assert "no label learned yet" in clf._repr_html_()
    cold = OnlineTransferClassifier("pa").partial_fit(np.eye(3), [0, 1, 0])
    assert "0 sources" in cold._repr_html_()


def test_plot_draws_what_the_model_says(fitted):
    matplotlib = pytest.importorskip("matplotlib", reason="pip install matplotlib")
    matplotlib.use("Agg")
    clf, _ = fitted
    weights, apart = clf.plot()
    drawn = {
        label.get_text(): bar.get_width()
        for label, bar in zip(weights.get_yticklabels(), weights.patches, strict=True)
    }
    assert drawn == pytest.approx(dict(clf.weights_))
    assert [bar.get_width() for bar in apart.patches][::-1] == pytest.approx(
        list(clf.discrepancy_.values())
    )
    import matplotlib.pyplot as plt

    plt.close("all")


def test_nothing_of_this_is_imported_by_fitting():
    code = (
        "import sys; from hedgerow import OnlineTransferClassifier as C; import numpy as np\n"
        "C('pa').fit(np.eye(4), [0, 1, 0, 1])\n"
        "print([m for m in ('IPython', 'matplotlib', 'hedgerow.task') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


CELLS = [
    "from hedgerow import OnlineTransferClassifier, load, split\n"
    "domains = load('digits')\n"
    "warmup, stream = split(domains['shifted'], warmup=0.3, seed=0)\n"
    "clf = OnlineTransferClassifier('oddm').fit_domains([domains['tilted'], domains['faded']], warmup)\n"
    "clf",
    "clf.predict_then_learn(stream.X, stream.y)\nclf",
    "clf.plot();",
]


@pytest.fixture(scope="module")
def notebook():
    missing = [
        name
        for name in ("nbclient", "nbformat", "ipykernel")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        pytest.skip(f"a notebook is executed: pip install {' '.join(missing)}")
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the client's own packages
        return NotebookClient(book, timeout=120, kernel_name="python3").execute()


@pytest.mark.slow
def test_a_real_notebook_shows_model_and_plot(notebook):
    first, second, third = notebook.cells
    assert "no label learned yet" in first.outputs[-1]["data"]["text/html"]
    labels = len(split(load("digits")["shifted"], warmup=0.3, seed=0)[1])
    assert f"mistakes in {labels} labels" in second.outputs[-1]["data"]["text/html"]
    assert "image/png" in third.outputs[-1]["data"]


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_in_a_browser_it_is_readable_in_both_themes(notebook, theme, tmp_path):
    if not shutil.which("chromium") or importlib.util.find_spec("playwright") is None:
        pytest.skip(
            "the picture is looked at in a browser: apt-get install chromium, pip install playwright"
        )
    from playwright.sync_api import sync_playwright

    live = notebook.cells[1].outputs[-1]["data"]["text/html"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_context(
            color_scheme=theme, viewport={"width": 800, "height": 900}
        ).new_page()
        page.set_content(
            f"<body data-jp-theme-light={'true' if theme == 'light' else 'false'}>{live}</body>"
        )
        style = page.eval_on_selector(
            ".hedgerow-card",
            "n => [getComputedStyle(n).color, getComputedStyle(n).backgroundColor]",
        )
        widths = page.eval_on_selector_all(
            ".hedgerow-card rect", "all => all.map(r => r.getBoundingClientRect().width)"
        )
        page.screenshot(path=tmp_path / "card.png")
        browser.close()
    ink, paper = (np.mean([int(v) for v in re.findall(r"\d+", text)[:3]]) for text in style)
    assert (ink < 90 and paper > 200) if theme == "light" else (ink > 200 and paper < 90)
    assert max(widths) > 100
