"""The helpers of the site, and the linter of the pages, do what they say."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HELPERS = ("site_links", "site_math", "site_docstrings", "site_commands", "absolute_links", "gallery_style")


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
    assert links.without_files("[x](examples/quickstart.py)", ROOT, ROOT) == "x (`examples/quickstart.py`)"


def test_the_readme_for_an_index_has_no_relative_link():
    made = helper("absolute_links").absolute(
        (ROOT / "README.md").read_text(encoding="utf-8"), "https://host/me/hedgerow"
    )
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", made, flags=re.M | re.S))
    assert len(targets) > 20
    assert all(re.match(r"https://", target) for target in targets)
    with pytest.raises(SystemExit, match="no address"):
        helper("absolute_links").absolute("", "hedgerow")


# -- the linter ---------------------------------------------------------------------------------------------------

WRONG = {
    "typed_commands": "```\nhedgerow fit --colour red\n```\n",
    "commands_within_the_text": "see `hedgerow colour`",
    "dotted_names": "see `hedgerow.colour`",
    "links": "see [there](nowhere.md)",
    "named_files": "see `tests/unit/test_laws_heads.py::test_nothing`",
    "paper": "| Eq. 18 | x | `hedgerow.align` |\n",
    "readings": "| 13 | `tau` | 1 | 1 | 1 | 1 |\n",
    "streams": "## colour\n",
    "design": "| package | what |\n|---|---|\n| `colour` | a |\n\n## The contract\n",
}


@pytest.fixture(scope="module")
def lint():
    return helper("lint")


@pytest.mark.parametrize("name", WRONG)
def test_a_page_that_is_wrong_is_seen(lint, name):
    pages = lint.read_pages()
    check = getattr(lint, name)
    assert list(check(pages)) == []
    for page in ("docs/paper.md", "docs/streams.md", "DESIGN.md"):
        pages[page] = f"{WRONG[name]}\n{pages[page]}"
    assert list(check(pages)) != []


@pytest.mark.parametrize(
    ("check", "page", "before", "after"),
    [
        ("methods", "docs/methods.md", "preprocess", ""),
        ("methods", "docs/methods.md", "| `oddm` |", ""),
        ("readme", "README.md", "make demo", ""),
        ("readme", "README.md", "| **13.27** |", "| **13.26** |"),
        ("readme", "README.md", "## Install", "## Install" + "\n" * 99),
    ],
)
def test_whoever_drops_a_parameter_a_method_or_a_command_or_changes_a_result_is_told(lint, check, page, before, after):
    pages = lint.read_pages()
    assert before in pages[page]
    assert len(list(getattr(lint, check)(pages | {page: pages[page].replace(before, after)}))) == 1
