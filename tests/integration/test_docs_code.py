"""What the pages print, runs: their Python as it stands, their commands on small files."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command import COMMAND, PYTHON, environment
from support.messy import messy as messy_table

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")])
}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.M | re.S)
INDENTED = re.compile(r"^    ((?:make|python|hedgerow|pip) .*)$", flags=re.M)
LONG = ("compare", "demo", "serve")  # their own tests run them


def python_of(page: str) -> str:
    return "\n".join(code for language, code in FENCE.findall(PAGES[page]) if language == "python")


def commands_of(page: str) -> list[str]:
    """Lines that a reader would type, without the remark behind them."""
    blocks = [
        code for language, code in FENCE.findall(PAGES[page]) if language in ("", "console", "sh")
    ]
    lines = [line for code in blocks for line in code.splitlines()] + INDENTED.findall(
        FENCE.sub("", PAGES[page])
    )
    found = [re.sub(r"\s+#.*$", "", line).strip() for line in lines]
    return [line for line in found if re.match(r"(make|python|hedgerow|pip|tail) ", line)]


def messy(rows: int, seed: int) -> Any:
    """A table as people have them, with the label of docs/tables.md."""
    return messy_table(rows, seed, float(seed)).rename(columns={"bought": "sent_back"})


def first_of(pages: list[str], what: Callable[[str], Any]) -> list[str]:
    """One page of those that print the same."""
    return list({str(what(page)): page for page in reversed(pages)}.values())[::-1]


WITH_PYTHON = first_of([page for page in PAGES if python_of(page)], python_of)
RUN = re.compile(rf"(hedgerow (?!({'|'.join(LONG)})\b)|tail )")
WITH_COMMANDS = first_of(
    [page for page in PAGES if any(RUN.match(line) for line in commands_of(page))],
    lambda page: [line for line in commands_of(page) if RUN.match(line)],
)
EXPECTED = {  # what must hold after a page's code, beside that it runs
    "README.md": "0 < mistakes < 0.3",
    "docs/streams.md": "0 < np.mean(mistakes) < 0.6 and 0 < clf.mistakes_ < 0.6 * clf.seen_",
}


IN_A_CHECKOUT = ("docs/streams.md",)  # its code uses the experiments, which are beside the library
STARTS_PROCESSES = {"docs/spark.md", "docs/other-tools.md"}


def test_there_is_something_to_run():
    assert {"README.md", "CONTRIBUTING.md", "docs/streams.md", "docs/live.md"} <= set(WITH_PYTHON)
    assert {"README.md", "docs/live.md", "docs/start.md", "docs/tables.md"} <= set(WITH_COMMANDS)


def quickly(pages: list[str]) -> list[Any]:
    """The README in `make test`, all others in `make test-rest`."""
    return [
        pytest.param(page, marks=() if page == "README.md" else pytest.mark.slow) for page in pages
    ]


@pytest.mark.parametrize("page", quickly(WITH_PYTHON))
def test_the_python_of_a_page_runs_as_printed(page, tmp_path):
    code = f"{python_of(page)}\nassert {EXPECTED.get(page, 'True')}\n"
    script = tmp_path / "page.py"
    script.write_text(code, encoding="utf-8")
    fresh = [sys.executable, "-W", "error"]
    python = PYTHON
    env = environment()
    if page in STARTS_PROCESSES or page in IN_A_CHECKOUT:
        python = fresh
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*python, script], cwd=tmp_path, capture_output=True, text=True, timeout=300, env=env
    )
    assert done.returncode == 0, done.stderr
    if page == "README.md":  # its output as printed; another BLAS may decide a tie otherwise
        printed = dict(FENCE.findall(PAGES[page]))["text"]
        rate = r"([\d.]+)(?=%)"
        assert re.sub(rate, "", done.stdout) == re.sub(rate, "", printed)
        assert abs(float(re.search(rate, done.stdout)[1]) - float(re.search(rate, printed)[1])) < 1


TABLES = Path(os.environ.get("HEDGEROW_DATA", "nowhere")) / "tables"


@pytest.mark.slow
@pytest.mark.skipif(not TABLES.is_dir(), reason="no folder tables in HEDGEROW_DATA")
def test_the_example_of_tables_beats_boosting_as_its_page_says(tmp_path):
    done = subprocess.run(
        [*PYTHON, ROOT / "examples" / "tables.py", tmp_path / "bookings"],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ours, boosting, majority = (
        float(rate) for rate in re.findall(r"([\d.]+)% mistakes on 1050 rows", done.stdout)
    )
    assert ours < boosting < majority
    assert (tmp_path / "bookings" / "tables.png").is_file()


# -- commands ---------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the pages name, small."""
    import pandas as pd

    where = tmp_path
    rng = np.random.default_rng(0)

    def table(n: int, shift: float) -> pd.DataFrame:
        X = rng.normal(size=(n, 4))
        y = np.where(X[:, 0] > 0, "up", "down")
        return pd.DataFrame(X + shift, columns=list("abcd")).assign(y=y)

    table(40, 0.0).to_csv(where / "site-a.csv", index=False)
    table(40, 0.5).to_parquet(where / "site-b.parquet")
    table(30, 1.0).drop(columns="y").to_csv(where / "new-site.csv", index=False)
    table(30, 1.0).to_csv(where / "stream.csv", index=False)
    table(30, 1.0).to_json(where / "live.jsonl", orient="records", lines=True)
    messy(50, 0).to_csv(where / "north.csv", index=False)
    messy(50, 1).to_parquet(where / "south.parquet")
    messy(40, 2).to_csv(where / "new-shop.csv", index=False)
    for seed, name in enumerate(("Q1", "Q2", "Q4", "Q3")):
        messy(50, seed).rename(columns={"sent_back": "rate"}).to_csv(
            where / f"{name}.csv", index=False
        )
    messy(30, 3).drop(columns="sent_back").to_csv(where / "Q3-known.csv", index=False)
    return where


@pytest.mark.parametrize("page", quickly(WITH_COMMANDS))
def test_the_commands_of_a_page_run_in_their_order(page, folder):
    for line in commands_of(page):
        if RUN.match(line):
            run(line, folder)


def run(line: str, folder: Path) -> None:
    """In the folder where its files are."""
    mine = shlex.join(COMMAND)
    line = re.sub(r"(^|\| )hedgerow\b", lambda found: found[1] + mine, line)
    line = line.replace("tail -f", "cat")  # which ends
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], cwd=folder, capture_output=True, text=True, timeout=120,
        env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stderr}"
