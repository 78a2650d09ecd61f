"""Is every command, option and public name documented, and does what the pages print exist?"""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    if path.name != "CHANGELOG.md"  # which tells of what has gone
}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.M | re.S)
INDENTED = re.compile(r"^    ((?:make|pip|hedgerow) .*)$", flags=re.M)
MODULES = re.findall(
    r"^   (hedgerow[\w.]*)$", (ROOT / "docs" / "api.rst").read_text(encoding="utf-8"), flags=re.M
)


def test_every_command_and_option_has_help():
    from hedgerow.cli.app import app, arguments_of

    silent = []
    names = [name for name in app if not name.startswith("-")]
    for name in names:
        silent += [] if app[name].help else [name]
        silent += [f"{name} {each.name}" for each in arguments_of(name) if not each.parameter.help]
    assert len(names) > 10
    assert silent == []


def test_there_are_few_things_to_know():
    from hedgerow.cli.app import app, arguments_of

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    targets = re.findall(
        r"^[a-z-]+(?=:)", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M
    )
    names = [name for name in app if not name.startswith("-")]
    assert len(extras) <= 12
    assert len(targets) <= 12
    assert len(names) <= 17
    most = {"compare": 26}
    assert [name for name in names if len(arguments_of(name)) > most.get(name, 20)] == []


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_docstring(module):
    found = importlib.import_module(module)
    assert found.__doc__
    public = getattr(found, "__all__", [name for name in vars(found) if not name.startswith("_")])
    things = {name: getattr(found, name) for name in public}
    described = {
        name: thing
        for name, thing in things.items()
        if inspect.isroutine(thing)
        or (inspect.isclass(thing) and str(thing.__module__).startswith("hedgerow"))
    }
    assert [name for name, thing in described.items() if not inspect.getdoc(thing)] == []


RECEIVED = {  # what users get and never make; what needs a server or a cluster has its example on a page
    "hedgerow.estimator": {"Explanation", "Explanations", "OnlineTransferEstimator"},
    "hedgerow.regressor": {"NumberExplanation"},
    "hedgerow.align": {"Info"},
    "hedgerow.extend": {"Info"},
    "hedgerow.mix": {"Mixed"},
    "hedgerow.data": {"Available"},
    "hedgerow.drift": {"Change", "Drift"},
    "hedgerow.live": {
        "Answer", "Busy", "Closed", "JournalError", "LabelResult", "NumberAnswer", "Owned", "Replaced", "Settings",
    },
    "hedgerow.fleet": {"DeadLetter", "KeyState", "Member", "Target"},
}  # fmt: skip


@pytest.mark.parametrize("module", sorted({*MODULES} - {"hedgerow.client", "hedgerow.spark"}))
def test_every_public_name_has_an_example(module):
    found = importlib.import_module(module)
    things = {name: getattr(found, name) for name in found.__all__}
    bare = {
        name
        for name, thing in things.items()
        if (inspect.isroutine(thing) or inspect.isclass(thing))
        and str(thing.__module__).startswith("hedgerow")
        and ">>> " not in (inspect.getdoc(thing) or "")
    }
    assert bare == RECEIVED.get(module, set())


def typed(text: str) -> list[str]:
    """Commands that a reader would type, without the remark behind them."""
    blocks = [code for language, code in FENCE.findall(text) if language in ("", "console", "sh")]
    lines = [line for code in blocks for line in code.splitlines()] + INDENTED.findall(
        FENCE.sub("", text)
    )
    bare = [re.sub(r"\s+#.*$", "", line).strip() for line in lines]
    return [
        part.strip()
        for line in bare
        for part in line.split(" | ")
        if re.match(r" *hedgerow [a-z]", part)
    ]


@pytest.mark.parametrize("page", sorted(PAGES))
def test_commands_of_a_page_exist(page):
    from hedgerow.cli.app import app

    for line in typed(PAGES[page]):
        if "COMMAND" not in line and "..." not in line:
            app.parse_args(shlex.split(line)[1:], exit_on_error=False, print_error=False)


@pytest.mark.parametrize("page", sorted(PAGES))
def test_targets_extras_and_links_of_a_page_exist(page):
    text = PAGES[page]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    for name in re.findall(r"(?:`|^ {4})make ([\w-]+)(?=[` \n])", text, flags=re.M):
        assert f"\n{name}:" in makefile or name == "it", name  # "make it first" is no target
    named = re.findall(r"hedgerow\[([\w,-]+)\]", text)
    assert {extra for names in named for extra in names.split(",")} <= set(extras)
    for link in re.findall(
        r"\]\((?!https?:|#)([^)#\s]+)", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    ):
        assert ((ROOT / page).parent / link).exists(), link


EXAMPLES = [*(ROOT / "examples").rglob("*.py")]


def imported(code: str) -> set[str]:
    """The modules of ours that a piece of code imports names from."""
    return set(re.findall(r"^\s*(?:from|import) (hedgerow[\w.]*)", code, flags=re.M))


def test_examples_and_pages_import_public_modules_only():
    pieces = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in EXAMPLES}
    for page, text in PAGES.items():
        pieces[page] = "\n".join(
            code for language, code in FENCE.findall(text) if language == "python"
        )
    assert "hedgerow.extend" in imported(pieces["CONTRIBUTING.md"])
    public = {*MODULES, "hedgerow.river", "hedgerow.mlflow", "hedgerow.pipeline"}
    private = {page: imported(code) - public for page, code in pieces.items()}
    assert {page: names for page, names in private.items() if names} == {}
