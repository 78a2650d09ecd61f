"""Docstrings for the reference: they are plain text with `names` between backticks; here they become reStructuredText.

Stars, bars and underscores mean themselves, a table stays as it was drawn, `name` is shown as code. Sections in the
manner of numpydoc ("Parameters", "Examples") and examples (>>>) are left to numpydoc.
"""

from __future__ import annotations

import re
from typing import Any

CODE = re.compile(r":math:`[^`]+`|(`+)([^`]+)\1")
SPECIAL = re.compile(r"([*|\\])|(?<=\w)_(?=\W|$)")
TYPE = re.compile(
    r"(str|int|float|bool|bytes|object|None|array|list|tuple|dict|mapping|set|sequence|callable|Path|[A-Z]\w+|\{|\")"
)
FIELD = re.compile(r"^(\w+(?:, \w+)*) +: (.*)$")


def plain(line: str) -> str:
    """One line, with what reStructuredText would take for markup escaped; formulas stay.

    >>> plain("weights `w_e` of |x|, * and fit_")
    'weights ``w_e`` of \\\\|x\\\\|, \\\\* and fit\\\\_'
    >>> plain("the weights :math:`p_t` of `e`")
    'the weights :math:`p_t` of ``e``'
    """
    pieces, last = [], 0
    for found in CODE.finditer(line):
        code = f"``{found[2].strip()}``" if found[2] else found[0]
        pieces += [_escaped(line[last : found.start()]), code]
        after = line[found.end() : found.end() + 1]
        pieces += ["\\ "] if after.isalnum() else []
        last = found.end()
    return "".join([*pieces, _escaped(line[last:])])


def _escaped(text: str) -> str:
    return SPECIAL.sub(lambda found: "\\" + (found[1] or "_"), text)


def rewritten(lines: list[str]) -> list[str]:
    """A docstring: tables and indented formulas as literal blocks, examples as they are, the rest by `plain`."""
    found: list[str] = []
    example = drawn = formula = False
    for line in lines:
        empty, indented = not line.strip(), line.startswith("    ")
        formula = line.startswith(".. math::") or (formula and (empty or indented))
        if formula:
            found.append(line)
            continue
        example = line.lstrip().startswith(">>>") or (example and not empty)
        start = line.startswith("|") or (
            indented and not empty and (not found or not found[-1].strip())
        )
        if example:
            drawn = False
            found.append(line)
        elif drawn or start:
            if not drawn:
                found += ["::", ""]
            drawn = drawn and not (empty is False and not indented and not line.startswith("|"))
            if start or drawn:
                drawn = True
                found.append(f"    {line}" if not empty else line)
            else:
                found += ["", plain(line)] if found[-1].strip() else [plain(line)]
        else:
            found.append(plain(line))
    return found


def _typed(line: str) -> bool:
    """Whether a field has a type behind the colon, as numpydoc wants it."""
    field = FIELD.match(line)
    return bool(field and TYPE.match(field[2]) and not field[2].endswith("."))


def listed(lines: list[str]) -> list[str]:
    """Lines `name : what it is`: as a list, or, under "Parameters", with the words below the name as numpydoc wants it.

    >>> listed(["sync : how", "    it is written"])
    ['- `sync`: how', '  it is written']
    >>> listed(["Parameters", "----------", "sync : how", "    it is written"])[2:]
    ['sync', '    how', '    it is written']
    >>> listed(["Parameters", "----------", "dim : int or None", "    The dimension."])[2:]
    ['dim : int or None', '    The dimension.']
    """
    if any(line.startswith("----") for line in lines):
        fields = [(line, None if _typed(line) else FIELD.match(line)) for line in lines]
        return [
            new
            for line, field in fields
            for new in ([field[1], f"    {field[2]}"] if field else [line])
        ]
    found, within = [], False
    for line in lines:
        field = FIELD.match(line)
        if field and not within and found and found[-1].strip():
            found.append("")
        before, within = within, bool(field) or (within and line.startswith("    "))
        if before and not within and line.strip():
            found.append("")
        found.append(
            f"- `{field[1]}`: {field[2]}" if field else f"  {line.strip()}" if within else line
        )
    return found


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = rewritten(listed(lines))


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx; before numpydoc reads the docstring."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
