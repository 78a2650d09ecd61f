"""DESIGN.md says what is: its packages, its walk of a row, the words of its glossary."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DESIGN = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "hedgerow"


def test_the_packages_are_those_of_the_import_layers_in_their_order():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = [set(layer.split(" | ")) for layer in contract[0]["layers"]]
    table = DESIGN[: DESIGN.index("## The contract")]
    rows = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines() if line.startswith("| `")]
    assert [set(names) for names in rows] == layers


def test_the_walk_is_the_one_that_is_traced(tmp_path):
    """If it fails: python benchmarks/walk.py --write DESIGN.md."""
    page = tmp_path / "DESIGN.md"
    page.write_text(DESIGN, encoding="utf-8")
    script = [sys.executable, ROOT / "benchmarks" / "walk.py", "--write", page]
    subprocess.run(script, check=True, capture_output=True, timeout=120)
    assert page.read_text(encoding="utf-8") == DESIGN


FILES = sorted({name for name in re.findall(r"[`(]([\w/.]+/[\w.]+\.(?:py|md))[`)]", DESIGN) if "walk" not in name})


@pytest.mark.parametrize("name", FILES)
def test_every_file_that_is_named_exists(name):
    assert (ROOT / name).is_file() or (PACKAGE / name).is_file()


def test_no_word_of_the_glossary_stands_there_twice():
    rows = re.findall(r"^\| ([^|]+) \|", DESIGN[DESIGN.index("## Glossary") :], flags=re.M)
    words = [word.strip() for row in rows[1:] for word in row.split(",") if "---" not in row]
    assert len(words) == len(set(words)) > 30
