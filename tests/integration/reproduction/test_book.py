"""Reports and measured tables come from rows in the repository; making them again changes no byte."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hedgerow.comparison import results
from reproduction import book

ROOT = Path(__file__).parents[3]
NAMES = sorted(path.stem for path in book.ROWS.glob("*.json"))


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
def test_making_the_pages_again_gives_the_same_bytes(tmp_path):
    book.write(tmp_path / "a")
    book.write(tmp_path / "b")
    made = files(tmp_path / "a")
    again = files(tmp_path / "b")
    assert {"index.md", *(f"{name}.md" for name in NAMES)} <= set(made)
    assert sorted(made) == sorted(again)
    assert [name for name in made if made[name] != again[name]] == []


@pytest.mark.parametrize("name", book.PAGES)
def test_the_measured_tables_of_the_pages_come_from_rows(name, tmp_path):
    """If it fails: python -m reproduction book."""
    page = ROOT / "docs" / name
    assert book.fill(page, tmp_path / name).read_bytes() == page.read_bytes()


def test_every_measured_table_stands_on_a_page_and_the_decision_page_has_no_other_figure():
    pages = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in book.PAGES}
    shown = [block[1] for text in pages.values() for block in book.BLOCK.findall(text)]
    assert sorted(shown) == sorted(book.BLOCKS)
    outside = book.BLOCK.sub("", pages["guide.md"])
    assert not re.search(r"\d+\.\d|\d+ %", outside), "a figure that was typed by hand"


@pytest.mark.slow
def test_a_changed_row_changes_the_page(tmp_path):
    name = "study-digits"
    about = book.unpack(name, tmp_path / "out")
    path = tmp_path / "out" / results.FILE
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    few = [row for row in lines if row["group"] == "delay"]
    for changed, folder in ((0, "a"), (5, "b")):
        few[0]["mistakes"] += changed
        path.write_text("".join(json.dumps(row) + "\n" for row in few), encoding="utf-8")
        book.keep(tmp_path / "out", name, about["commit"], tmp_path / "rows")
        book.write(tmp_path / folder, tmp_path / "rows")
    assert files(tmp_path / "a")["study-digits.md"] != files(tmp_path / "b")["study-digits.md"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_rows_are_kept_as_they_were_and_name_their_making(name, tmp_path):
    about = book.unpack(name, tmp_path / "one")
    assert re.match(r"[0-9a-f]{7,12}", about["commit"])
    assert about["versions"]
    assert about["commands"]
    assert "/" not in " ".join(about["commands"])
    rows, problems = results.read(tmp_path / "one")
    assert problems == []
    assert len(rows) == about["rows"]
    book.keep(tmp_path / "one", name, about["commit"], tmp_path / "rows")
    book.unpack(name, tmp_path / "two", tmp_path / "rows")
    assert files(tmp_path / "two") == files(tmp_path / "one")
    assert (tmp_path / "rows" / f"{name}.json").read_bytes() == (
        book.ROWS / f"{name}.json"
    ).read_bytes()


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="has no results"):
        book.keep(tmp_path, "x", "0" * 12, tmp_path)


def test_commands_lose_the_folders_of_their_machine():
    assert (
        book.as_kept("python -m reproduction --out=/a/b --data-dir /c", "x")
        == "python -m reproduction --out x"
    )
