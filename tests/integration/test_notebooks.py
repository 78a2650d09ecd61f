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

from hedgerow import Domain, InputError, OnlineTransferClassifier, load, split, watch
from hedgerow.show import advice


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
    assert (f"and {len(clf.expert_names_) - count} more" in page) == (count < len(clf.expert_names_))
    assert "What to try next" in page
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
    assert any("predict_then_learn" in line for line in advice(clf))
    cold = OnlineTransferClassifier("pa").partial_fit(np.eye(3), [0, 1, 0])
    assert "0 sources" in cold._repr_html_()


def test_advice_names_the_source_that_is_far():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    near = [Domain(name, rng.normal(size=(60, 4)) + y[:, None], y) for name in "ab"]
    far = Domain("odd", rng.normal(size=(60, 4)) - 9 * y[:, None], y)
    clf = OnlineTransferClassifier("homotlms", preprocess=()).fit_domains([*near, far], near[0])
    clf.predict_then_learn(near[1].X, y)
    assert any("'odd'" in line for line in advice(clf))


def test_plot_draws_what_the_model_says(fitted):
    matplotlib = pytest.importorskip("matplotlib", reason="pip install matplotlib")
    matplotlib.use("Agg")
    clf, _ = fitted
    weights, apart = clf.plot()
    drawn = {
        label.get_text(): bar.get_width() for label, bar in zip(weights.get_yticklabels(), weights.patches, strict=True)
    }
    assert drawn == pytest.approx(dict(clf.weights_))
    assert [bar.get_width() for bar in apart.patches][::-1] == pytest.approx(list(clf.discrepancy_.values()))
    import matplotlib.pyplot as plt

    plt.close("all")


# -- while a stream runs ----------------------------------------------------------------------------------------


def test_watching_prints_plain_lines_and_changes_no_prediction(fitted, capsys):
    clf, stream = fitted
    one = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    two = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    X, y = stream.X[120:230], stream.y[120:230]
    found = watch(one, X, y, every=40)
    assert np.array_equal(found.predictions, two.predict_then_learn(X, y))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["40", "80", "110"]
    assert "\x1b" not in "".join(lines)
    wrong = found.predictions != y
    assert found.so_far == pytest.approx([wrong[:40].mean(), wrong[:80].mean(), wrong.mean()])
    assert found.newest == pytest.approx([wrong[:40].mean(), wrong[40:80].mean(), wrong[80:].mean()])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"y": None}, "give its labels"),
        ({"every": 0}, "every=0"),
        ({"y": [1, 2]}, "10 rows and 2 labels"),
    ],
)
def test_bad_streams_are_refused_before_anything_is_learned(fitted, given, words):
    clf, stream = fitted
    seen = clf.seen_
    with pytest.raises(InputError, match=words):
        watch(clf, stream.X[:10], **{"y": stream.y[:10], **given})
    with pytest.raises(InputError, match="its own"):
        watch(clf, stream, stream.y)
    assert clf.seen_ == seen


def test_nothing_of_this_is_imported_by_fitting():
    code = (
        "import sys; from hedgerow import OnlineTransferClassifier as C; import numpy as np\n"
        "C('pa').fit(np.eye(4), [0, 1, 0, 1])\n"
        "print([m for m in ('IPython', 'matplotlib', 'hedgerow.show') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


CELLS = [
    "from hedgerow import OnlineTransferClassifier, load, split, watch\n"
    "domains = load('digits')\n"
    "warmup, stream = split(domains['shifted'], warmup=0.3, seed=0)\n"
    "clf = OnlineTransferClassifier('oddm').fit_domains([domains['tilted'], domains['faded']], warmup)\n"
    "clf",
    "found = watch(clf, stream, every=50)",
    "clf.plot();",
]


@pytest.fixture(scope="module")
def notebook():
    missing = [name for name in ("nbclient", "nbformat", "ipykernel") if importlib.util.find_spec(name) is None]
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
def test_a_real_notebook_shows_model_stream_and_plot(notebook):
    first, second, third = notebook.cells
    assert "no label learned yet" in first.outputs[-1]["data"]["text/html"]
    (live,) = [output for output in second.outputs if output["output_type"] == "display_data"]
    assert "<polyline" in live["data"]["text/html"]
    labels = len(split(load("digits")["shifted"], warmup=0.3, seed=0)[1])
    assert f"mistakes in {labels} labels" in live["data"]["text/html"]  # the last picture, in the place of the first
    assert "image/png" in third.outputs[-1]["data"]


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_in_a_browser_it_is_readable_in_both_themes(notebook, theme, tmp_path):
    if not shutil.which("chromium") or importlib.util.find_spec("playwright") is None:
        pytest.skip("the picture is looked at in a browser: apt-get install chromium, pip install playwright")
    from playwright.sync_api import sync_playwright

    live = notebook.cells[1].outputs[0]["data"]["text/html"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_context(color_scheme=theme, viewport={"width": 800, "height": 900}).new_page()
        page.set_content(f"<body data-jp-theme-light={'true' if theme == 'light' else 'false'}>{live}</body>")
        style = page.eval_on_selector(
            ".hedgerow-card", "n => [getComputedStyle(n).color, getComputedStyle(n).backgroundColor]"
        )
        widths = page.eval_on_selector_all(
            ".hedgerow-card rect", "all => all.map(r => r.getBoundingClientRect().width)"
        )
        page.screenshot(path=tmp_path / "card.png")
        browser.close()
    ink, paper = (np.mean([int(v) for v in re.findall(r"\d+", text)[:3]]) for text in style)
    assert (ink < 90 and paper > 200) if theme == "light" else (ink > 200 and paper < 90)
    assert max(widths) > 100
