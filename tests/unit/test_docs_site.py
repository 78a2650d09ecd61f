"""The helpers of the site do what they say."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HELPERS = (
    "site_links",
    "site_math",
    "site_docstrings",
    "site_commands",
    "absolute_links",
    "gallery_style",
)


def helper(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", HELPERS)
def test_the_examples_of_the_helpers_hold(name):
    assert doctest.testmod(helper(name)).failed == 0


def test_a_link_to_no_page_stays_for_the_warning_that_it_deserves():
    links = helper("site_links")
    assert links.without_files("[x](nowhere.py)", ROOT, ROOT) == "[x](nowhere.py)"
    assert (
        links.without_files("[x](examples/quickstart.py)", ROOT, ROOT)
        == "x (`examples/quickstart.py`)"
    )


def test_the_readme_for_an_index_has_no_relative_link():
    made = helper("absolute_links").absolute(
        (ROOT / "README.md").read_text(encoding="utf-8"), "https://host/me/hedgerow"
    )
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", made, flags=re.M | re.S))
    assert len(targets) > 20
    assert all(re.match(r"https://", target) for target in targets)
    with pytest.raises(SystemExit, match="no address"):
        helper("absolute_links").absolute("", "hedgerow")
