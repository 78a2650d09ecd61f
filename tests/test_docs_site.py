"""The pages as a whole: links lead somewhere, every page is found, the helpers of the site do what they say."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("book/*.md"), *ROOT.glob("benchmarks/**/*.md")])
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("*.py"))
HELPERS = ("site_links", "site_docstrings", "site_commands", "absolute_links", "gallery_style")


def helper(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_relative_link_and_picture_is_there(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found.read_text(encoding="utf-8")), target


def anchors(text: str) -> set[str]:
    """As a code host makes them of headings."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_every_page_of_docs_is_in_a_table_of_contents():
    """New pages get a place by themselves; here is that the place exists, and that no list names a page twice."""
    commands = helper("site_commands")
    assert commands.OTHER_PAGES in (DOCS / "guide.md").read_text(encoding="utf-8")
    named = [
        line.strip()
        for name in commands.LISTS
        for block in re.findall(r"^```{toctree}\n(.*?)^```", (DOCS / name).read_text(encoding="utf-8"), re.M | re.S)
        for line in block.splitlines()
        if (DOCS / f"{line.strip()}.md").is_file() and not line.startswith("../")
    ]
    assert len(named) == len(set(named))
    others = commands.other_pages(DOCS).split()
    assert {*named, *others, "index"} == {path.stem for path in DOCS.glob("*.md")} | {"book/index"}


@pytest.mark.parametrize("name", HELPERS)
def test_the_examples_of_the_helpers_hold(name):
    assert doctest.testmod(helper(name)).failed == 0


def test_a_link_to_no_page_stays_for_the_warning_that_it_deserves():
    links = helper("site_links")
    assert links.without_files("[x](nowhere.py)", ROOT, ROOT) == "[x](nowhere.py)"
    assert links.without_files("[x](examples/quickstart.py)", ROOT, ROOT) == "x (`examples/quickstart.py`)"


def test_every_command_and_option_is_on_the_page_of_commands():
    from typer.main import get_command

    from hedgerow.cli.app import app

    text = helper("site_commands").commands()
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        assert f"## {name}\n" in text
        part = text.split(f"## {name}\n")[1].split("\n## ")[0]
        for option in [p for p in command.params if p.param_type_name == "option"]:
            assert all(f"`{word}`" in part for word in option.opts), (name, option.name)


def test_the_readme_for_an_index_has_no_relative_link():
    made = helper("absolute_links").absolute(
        (ROOT / "README.md").read_text(encoding="utf-8"), "https://host/me/hedgerow"
    )
    targets = re.findall(r"\]\(([^)\s]+)\)", without_code(made))
    assert len(targets) > 20
    assert all(re.match(r"https://", target) for target in targets)
    with pytest.raises(SystemExit, match="no address"):
        helper("absolute_links").absolute("", "hedgerow")


# -- the gallery --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_has_a_title_and_shows_something(path):
    text = path.read_text(encoding="utf-8")
    title, line, *rest = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    assert set(line) == {"="}
    assert len(line) >= len(title)
    assert len(" ".join(rest)) > 80
    assert "print(" in text or "plt." in text
    needs = re.findall(r'load\("(?!digits)([\w-]+)"\)', text)
    assert bool(needs) == ("_data_" in path.stem), "examples with data that is not embedded are called NN_data_NAME.py"
    assert all(f"Needs the data set {name}" in " ".join(text.split()) for name in needs)


def test_there_are_about_fifteen_examples_in_an_order_of_their_own():
    assert len(EXAMPLES) >= 15
    assert [path.stem[:2] for path in EXAMPLES] == [f"{i:02d}" for i in range(1, len(EXAMPLES) + 1)]
