"""The book of results: every page is a fold of rows that are in the repository, and folding again changes no byte."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from book.fold import fold
from book.html_to_markdown import markdown

from book import measured
from book.rows import ROWS, as_kept, keep, unpack
from hedgerow.core.errors import HedgerowError
from hedgerow.experiment import results

ROOT = Path(__file__).parents[1]
NAMES = sorted(path.stem for path in ROWS.glob("*.json"))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_folding_again_gives_the_same_bytes(tmp_path):
    """If it fails: make book."""
    fold(tmp_path)
    made, there = files(tmp_path / "book"), files(ROOT / "docs" / "book")
    assert sorted(made) == sorted(there)
    assert [name for name in made if made[name] != there[name]] == []


@pytest.mark.parametrize("name", measured.PAGES)
def test_the_measured_tables_of_the_pages_are_folds(name, tmp_path):
    """If it fails: make book."""
    page = ROOT / "docs" / name
    assert measured.fill(page, tmp_path / name).read_bytes() == page.read_bytes()


def test_every_measured_table_stands_on_a_page_and_the_decision_page_has_no_other_figure():
    pages = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in measured.PAGES}
    shown = [block[1] for text in pages.values() for block in measured.BLOCK.findall(text)]
    assert sorted(shown) == sorted(measured.BLOCKS)
    outside = measured.BLOCK.sub("", pages["which.md"])
    assert not re.search(r"\d+\.\d|\d+ %", outside), "a figure that was typed by hand"


def test_a_changed_row_changes_the_page(tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    name = "study-digits"
    about = unpack(name, tmp_path / "out")
    path = tmp_path / "out" / results.FILE
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    few = [row for row in lines if row["group"] == "delay"]
    for changed, folder in ((0, "a"), (5, "b")):
        few[0]["mistakes"] += changed
        path.write_text("".join(json.dumps(row) + "\n" for row in few), encoding="utf-8")
        keep(tmp_path / "out", name, str(about["commit"]), rows)
        fold(tmp_path / folder, rows)
    assert files(tmp_path / "a")["book/study-digits.md"] != files(tmp_path / "b")["book/study-digits.md"]


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_kept_as_they_were_and_name_their_making(name, tmp_path):
    about = unpack(name, tmp_path / "one")
    assert re.match(r"[0-9a-f]{12}", str(about["commit"]))
    assert about["versions"]
    assert about["commands"]
    assert "/" not in " ".join(map(str, about["commands"])).replace("dask://", "")
    found = results.read(tmp_path / "one")
    assert found.problems == []
    assert len(found.rows) == about["rows"]
    keep(tmp_path / "one", name, str(about["commit"]), tmp_path / "rows")
    unpack(name, tmp_path / "two", tmp_path / "rows")
    assert files(tmp_path / "two") == files(tmp_path / "one")
    assert (tmp_path / "rows" / f"{name}.json").read_bytes() == (ROWS / f"{name}.json").read_bytes()


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises((SystemExit, HedgerowError), match="has no results"):
        keep(tmp_path, "x", "0" * 12, tmp_path)


def test_commands_lose_the_folders_of_their_machine():
    assert as_kept("hedgerow study all --out=/a/b --data-dir /c", "x") == "hedgerow study all --out=x"


def test_what_markdown_would_take_for_markup_means_itself():
    html = (
        "<p>a_b * c &lt; d <code>e_f</code></p><table><tr><th>x</th></tr><tr><td>1|2<small>3</small></td></tr></table>"
    )
    assert markdown(html, lambda svg, alt: "") == "a\\_b \\* c &lt; d `e_f`\n\n| x |\n| --- |\n| 1\\|2 [3] |\n"
