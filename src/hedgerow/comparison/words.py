"""Words around numbers: texts by name in templates/words.toml, filled by Jinja, and numbers as they are printed."""

from __future__ import annotations

import re
import tomllib
from functools import cache, cached_property
from importlib import resources
from typing import Any

from hedgerow.core.errors import require

TEX = {char: "\\" + char for char in "%&_#${}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "†": r"$^\dagger$",
    "−": "$-$", "–": "--", "µ": r"$\mu$", "≤": r"$\leq$", "λ": r"$\lambda$", "β": r"$\beta$", "τ": r"$\tau$",
    "<": "$<$", ">": "$>$",
}  # fmt: skip


class Words:
    """The texts of one or several packages: what stands above and below tables and figures, and longer sentences."""

    def __init__(self, *packages: str) -> None:
        self.packages = packages

    @cached_property
    def kinds(self) -> dict[str, dict[str, str]]:
        """The parts of each text by its name."""
        kinds: dict[str, dict[str, str]] = {}
        for package in self.packages:
            kinds |= tomllib.loads(
                (resources.files(package) / "templates/words.toml").read_text(encoding="utf-8")
            )
        return kinds

    def caption(self, kind: str, **words: Any) -> dict[str, str]:
        """All parts of a text, filled in; a line that begins with punctuation belongs to the one before it."""
        filled = {
            part: templates().from_string(text).render(**words)
            for part, text in self.kinds[kind].items()
        }
        return {
            part: re.sub(r" (?=[.,;:] )| (?=[.,;:]$)", "", " ".join(text.split()))
            for part, text in filled.items()
        }

    def text(self, kind: str, **words: Any) -> str:
        """A sentence, filled in.

        >>> Words("hedgerow.comparison").text("one-method")
        'Only one method was run: there is nothing to compare it with.'
        """
        return self.caption(kind, **words)["text"]


@cache
def templates() -> Any:
    """The templates of pages, and what they can do with words and numbers."""
    jinja2 = require("jinja2", "lab")
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("hedgerow.comparison"),
        autoescape=jinja2.select_autoescape(default_for_string=False),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters |= {
        "md": _markdown,
        "tex": lambda text: "".join(TEX.get(char, char) for char in str(text)),
    }
    made.filters |= {
        "one": "{:.1f}".format,
        "two": "{:.2f}".format,
        "signed": signed,
        "chance": chance,
    }
    return made


def _markdown(text: object) -> str:
    """Words that Markdown would take for markup, as they are."""
    return str(text).replace("*", "\\*").replace("<", "&lt;").replace("_", "\\_")


def render(template: str, **words: Any) -> str:
    """A template of this package, filled."""
    return str(templates().get_template(template).render(**words))


def number(x: float, form: str) -> str:
    """A number in this form; a dash where there is none.

    >>> number(1.234, ".1f"), number(float("nan"), ".1f")
    ('1.2', '–')
    """
    return "–" if x != x else f"{x:{form}}"


def signed(points: float) -> str:
    """A difference in points; a dash where there is none.

    >>> signed(-1.234), signed(float("nan"))
    ('−1.23', '–')
    """
    return number(points, "+.2f").replace("-", "−")


def chance(p: float) -> str:
    """A p-value.

    >>> chance(0.034), chance(0.00001), chance(float("nan"))
    ('p = 0.03', 'p < 0.0001', 'p –')
    """
    return (
        "p –"
        if p != p
        else "p < 0.0001"
        if p < 1e-4
        else f"p = {p:.4f}"
        if p < 0.01
        else f"p = {p:.2f}"
    )
