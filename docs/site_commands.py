"""What is listed by the code and not by hand: options of commands, modules of the reference, pages that no list has.

docs/commands.md, docs/api.rst and docs/guide.md have a marker each, in whose place this comes when the pages are built.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

COMMANDS = "<!-- the commands -->"
MODULES = ".. the modules of other tools"
OTHER_PAGES = "... pages that no list has"
LISTS = ("index.md", "guide.md", "operations.md", "results.md")
OTHER_TOOLS = ("hedgerow.river", "hedgerow.mlflow")


def commands() -> str:
    """Every command as Markdown: what it does, its arguments and options with their defaults."""
    from hedgerow.cli.app import app, arguments_of

    names = [name for name in app if not name.startswith("-")]
    return "\n\n".join(_command(name, app[name].help, arguments_of(name)) for name in names)


def _command(name: str, text: str, taken: list[Any]) -> str:
    text = inspect.cleandoc(text).partition("\n\nParameters\n")[0]
    words = [_word(each) for each in taken if not each.name.startswith("-")]
    usage = " ".join(["hedgerow", name, *words, "[OPTIONS]"])
    rows = [_row(each) for each in taken if each.name.startswith("-")]
    table = (
        "\n".join(["| option | what it does | default |", "|---|---|---|", *rows]) if rows else ""
    )
    return f"## {name}\n\n{_plain(text)}\n\n```text\n{usage}\n```\n\n{table}"


def _word(argument: Any) -> str:
    word = argument.name.upper()
    return word if argument.required else f"[{word}]"


def _row(option: Any) -> str:
    names = ", ".join(f"`{word}`" for word in option.names)
    default = option.field_info.default
    text = (
        "required"
        if option.required
        else ""
        if default in (None, "", option.field_info.empty)
        else f"`{default}`"
    )
    return (
        f"| {names} | {_plain(option.parameter.help or '').replace('|', chr(92) + '|')} | {text} |"
    )


def _plain(text: str) -> str:
    """Help in one paragraph, without what only a terminal understands."""
    return (
        re.sub(r"\s+", " ", text.replace("\b", "")).replace("<", "&lt;").replace("*", "\\*").strip()
    )


def write_modules(page: Path) -> None:
    """A page of the adaptors whose tools are installed, before Sphinx looks for pages; none where there is none."""
    found = [name for name in OTHER_TOOLS if importlib.util.find_spec(name) and _imported(name)]
    page.unlink(missing_ok=True)
    if found:
        page.parent.mkdir(exist_ok=True)
        title = "Adapters for other libraries"
        lines = "\n".join(f"   {name}" for name in found)
        directive = ".. autosummary::\n   :toctree: .\n   :template: autosummary/adaptor.rst"
        page.write_text(
            f"{title}\n{'=' * len(title)}\n\n{directive}\n\n{lines}\n", encoding="utf-8"
        )


def named_again(page: Path) -> list[str]:
    """Names by which a listed module hands on what another one before it hands on: the index has one of them."""
    seen: set[int] = set()
    again = []
    for module in re.findall(r"^   (hedgerow[\w.]*)$", page.read_text(encoding="utf-8"), re.M):
        found = importlib.import_module(module)
        for name in getattr(found, "__all__", ()):
            thing = getattr(found, name)
            if getattr(thing, "__module__", module) == module:
                continue
            if id(thing) in seen:
                again.append(f"{module}.{name}")
            seen.add(id(thing))
    return again


def _imported(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(f"{name} is left out of the reference: {error}")
        return False
    return True


def other_pages(docs: Path) -> str:
    """Pages in docs/ that no table of contents names, so that a new page is found without an edit of another."""
    listed = {
        line.strip()
        for name in LISTS
        for line in (docs / name).read_text(encoding="utf-8").splitlines()
    }
    return "\n".join(
        sorted(path.stem for path in docs.glob("*.md") if path.stem not in {"index", *listed})
    )


def _read(app: Any, docname: str, content: list[str]) -> None:
    if docname == "docs/commands":
        content[0] = content[0].replace(COMMANDS, commands())
    elif docname == "docs/guide":
        content[0] = content[0].replace(OTHER_PAGES, other_pages(Path(app.srcdir) / "docs"))
    elif docname == "docs/api":
        made = (Path(app.srcdir) / "docs" / "api" / "other-tools.rst").is_file()
        content[0] = content[0].replace(
            MODULES, ".. toctree::\n\n   api/other-tools" if made else ""
        )


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _read)
    app.connect(
        "env-get-outdated", lambda *_: ["docs/api", "docs/commands", "docs/guide"]
    )  # they depend on the code
    return {"parallel_read_safe": True, "parallel_write_safe": True}
