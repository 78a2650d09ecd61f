"""The command as people use it: their own files, a pipe, a terminal, several processes, an interrupt; and its page."""

from __future__ import annotations

import importlib.util
import os
import pty
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.alike import alike
from support.command import COMMAND, environment

from hedgerow.comparison.compare import compare
from hedgerow.comparison.results import FILE, KEY, read

SMALL = (
    "--label",
    "digit",
    "--warmup",
    ".3",
    "--methods",
    "pa,homotlms,hedgerow-linear",
    "--jobs",
    "1",
    "--peers",
    "none",
)
MISSING = [
    *([] if shutil.which("chromium") else ["Chromium (apt-get install chromium)"]),
    *([] if importlib.util.find_spec("playwright") else ["Playwright (pip install playwright)"]),
]


def words(*more: object) -> list[str]:
    own = [
        "compare",
        "--source",
        "tilted.csv",
        "--source",
        "faded.parquet",
        "--stream",
        "shifted.csv",
    ]
    return [*COMMAND, *own, *map(str, more)]


def run(files: Path, *more: object) -> subprocess.CompletedProcess[str]:
    env = environment(OPENBLAS_NUM_THREADS="1")
    return subprocess.run(
        words(*more), capture_output=True, text=True, timeout=300, env=env, cwd=files, check=False
    )


@pytest.fixture(scope="module")
def done(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "out"
    return out, run(files, *SMALL, "--out", out)


def test_three_methods_on_own_files_in_one_command(done, comparison):
    out, ran = done
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == comparison.verdict
    assert ran.stdout.splitlines()[-1] == str((out / "report.html").resolve())
    for title in ("PA", "HomOTLMS", "hedgerow (linear)", "What each source was worth"):
        assert title in ran.stdout
    assert "7/7 done" in ran.stderr
    assert "\x1b" not in ran.stdout + ran.stderr


def test_files_and_domains_give_the_same_mistakes(done, comparison):
    def counts(rows):
        return sorted(
            (row["group"], row["method"], row["variant"], row["mistakes"], row["wrong"])
            for row in rows
        )

    assert counts(read(done[0])[0]) == counts(comparison.records)


@pytest.mark.slow
def test_a_full_folder_is_not_overwritten_and_resuming_runs_nothing_again(done, files):
    out, _ = done
    before = (out / FILE).read_bytes()
    refused = run(files, *SMALL, "--out", out)
    assert (refused.returncode, "--resume" in refused.stderr) == (2, True)
    again = run(files, *SMALL, "--out", out, "--resume")
    assert again.returncode == 0, again.stderr
    assert "0 runs done, 7 were there already" in again.stderr
    assert (out / FILE).read_bytes() == before


def messy(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    sold = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.permutation(n), unit="D")
    colour = rng.choice(["red", "blue", None], n)
    kind = rng.choice(["mug", "pan"], n)
    return pd.DataFrame({"size": rng.normal(size=n), "colour": colour, "sold": sold, "kind": kind})


@pytest.mark.slow
def test_several_processes_give_the_rows_of_one():
    """The task travels to its workers as it is: categories, gaps, dates, labels of text, some of them missing."""
    stream = messy(90, 3)
    stream.loc[::9, "kind"] = None
    given = {"label": "kind", "warmup": 0.2, "methods": "pa,homotlms", "orders": 2, "peers": "none"}
    one, two = (
        compare({"a": messy(80, 1), "b": messy(50, 2)}, stream, jobs=jobs, **given)
        for jobs in (1, 2)
    )

    def rows(comparison):
        kept = [
            {k: v for k, v in row.items() if not k.startswith("seconds")}
            for row in comparison.records
        ]
        return sorted(kept, key=lambda row: [str(row[name]) for name in KEY])

    assert len(one.records) == 2 * (2 + 2)
    assert alike(rows(one), rows(two))


@pytest.mark.slow
def test_an_interrupt_keeps_what_is_finished_and_says_how_to_go_on(files, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen(
        words(*SMALL, "--orders", 60, "--out", out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(OPENBLAS_NUM_THREADS="1"), cwd=files, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (out / FILE).is_file() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert f"--out {out} --resume" in stderr
    rows, problems = read(out)
    assert rows
    assert problems == []


@pytest.mark.slow
def test_on_a_terminal_there_is_a_bar_and_colour(files, tmp_path):
    near, far = pty.openpty()
    process = subprocess.Popen(
        words(*SMALL, "--methods", "pa", "--out", tmp_path / "out"), stdout=far, stderr=far, cwd=files,
        env=environment(TERM="xterm-256color", COLUMNS="120", OPENBLAS_NUM_THREADS="1"),
    )  # fmt: skip
    os.close(far)
    seen = b""
    while True:
        try:
            part = os.read(near, 65536)
        except OSError:  # the terminal is gone: the command has ended
            break
        if not part:
            break
        seen += part
    os.close(near)
    assert process.wait(timeout=60) == 0
    text = seen.decode()
    assert "\x1b[" in text
    assert "1/1" in text
    assert "% mistakes of 125 instances" in text


def test_a_mistype_is_one_line(files, tmp_path):
    ran = run(files, *SMALL, "--out", tmp_path / "out", "--label", "digits")
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: unknown label column of tilted.csv 'digits'")
    assert ran.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_command_says_which_columns_were_left_out(tmp_path):
    messy(80, 1).assign(id=[f"r{i}" for i in range(80)]).to_csv(tmp_path / "a.csv", index=False)
    messy(120, 3).assign(id=[f"s{i}" for i in range(120)]).to_csv(tmp_path / "new.csv", index=False)
    own = [
        "compare",
        "--source",
        "a.csv",
        "--stream",
        "new.csv",
        "--label",
        "kind",
        "--methods",
        "pa",
        "--jobs",
        "1",
        "--peers",
        "none",
    ]
    ran = subprocess.run(
        [*COMMAND, *own],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "left out, id-like: id" in ran.stdout
    assert "left out, id-like: id" in (tmp_path / "hedgerow-compare" / "report.html").read_text(
        encoding="utf-8"
    )


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_browser_shows_it_without_complaint(done, comparison, theme):
    if MISSING:
        pytest.skip(f"the report is tested in a browser: install {' and '.join(MISSING)}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_context(
            viewport={"width": 1240, "height": 900}, color_scheme=theme
        ).new_page()
        requests = []
        complaints = []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((done[0] / "report.html").resolve().as_uri())
        assert page.locator("p").first.inner_text() == comparison.verdict
        images = page.locator("img")
        assert images.count() == len(comparison.plots)
        for i in range(images.count()):
            assert images.nth(i).evaluate("image => image.complete && image.naturalWidth") > 200
        first, second = (images.nth(i).bounding_box() for i in (0, 1))
        assert (
            first["y"] == second["y"] < 900
        )  # the curves are beside each other on the first screen
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert complaints == []
        assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
        browser.close()
