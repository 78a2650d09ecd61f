"""The examples of the docstrings, a test a module."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import hedgerow

FOLDERS = (Path(hedgerow.__file__).parent, Path(__file__).parents[2] / "reproduction")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = [
    ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
    for folder in FOLDERS
    for path in sorted(folder.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name, capsys):
    result = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert result.attempted > 0
    assert result.failed == 0, capsys.readouterr().out
