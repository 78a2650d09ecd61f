"""One page that shows a whole evaluation and needs nothing else: figures inlined, no script, light and dark."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Protocol

import hedgerow

CSS = """
:root { color-scheme: light dark;
  --text: #1f2328; --soft: #59636e; --paper: #ffffff; --line: #d9dee3; --best: #e3f4ec; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e9ed; --soft: #a3adb8; --paper: #16191d; --line: #333a42; --best: #173a2b; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--paper);
  max-width: 62rem; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin-bottom: .4rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; }
.lead { font-size: 1.08rem; } figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
figcaption, .note, footer { color: var(--soft); font-size: .92rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; vertical-align: bottom; white-space: normal; }
th:first-child, td:first-child { text-align: left; }
td.best { background: var(--best); font-weight: 600; } .facts td { text-align: left; white-space: normal; }
.facts td:first-child { white-space: nowrap; color: var(--soft); } footer { margin-top: 3rem; }
td small { color: var(--soft); display: block; } td.far { background: #fbe9d0; }
@media (prefers-color-scheme: dark) { td.far { background: #4a3413; } }
nav a { margin-right: .9rem; white-space: nowrap; } a { color: inherit; } details { margin: .6rem 0; }
summary { cursor: pointer; } h3 { font-size: 1.02rem; margin: 1.6rem 0 .4rem; }
ul { padding-left: 1.2rem; } li { margin: .3rem 0; } code { font-size: .92em; }
td.words { white-space: normal; text-align: left; min-width: 15rem; }
.tight th, .tight td { padding: .3rem .45rem; font-size: .92rem; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 0 1.5rem; }
.missing { color: var(--soft); font-style: italic; }
"""


class Part(Protocol):
    """Anything that can stand under a heading."""

    def html(self) -> str:
        """As HTML."""
        ...


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str

    def html(self) -> str:
        """As HTML."""
        return f"<p>{escape(self.text)}</p>"


@dataclass(frozen=True)
class Picture:
    """A figure as SVG, once for light and once for dark paper."""

    light: str
    dark: str
    alt: str
    caption: str

    def html(self) -> str:
        """As HTML."""
        return (
            f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{_inline(self.dark)}">'
            f'<img src="{_inline(self.light)}" alt="{escape(self.alt)}"></picture>'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )


@dataclass(frozen=True)
class Beside:
    """Parts beside each other where there is room, else one below the other."""

    parts: Sequence[Part]

    def html(self) -> str:
        """As HTML."""
        return '<div class="beside">' + "\n".join(f"<div>{part.html()}</div>" for part in self.parts) + "</div>"


@dataclass(frozen=True)
class Facts:
    """A table of names and values: what somebody needs to know to run it again."""

    facts: Mapping[str, str]

    def html(self) -> str:
        """As HTML."""
        rows = "".join(f"<tr><td>{escape(key)}</td><td>{escape(value)}</td></tr>" for key, value in self.facts.items())
        return f'<div class="scroll"><table class="facts"><tbody>{rows}</tbody></table></div>'


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; `anchor` is its name in links."""

    title: str
    parts: Sequence[Part]
    anchor: str = ""

    def html(self) -> str:
        """As HTML."""
        name = f' id="{escape(self.anchor)}"' if self.anchor else ""
        body = "\n".join(part.html() for part in self.parts)
        return f"<section{name}><h2>{escape(self.title)}</h2>\n{body}</section>"


@dataclass(frozen=True)
class Contents:
    """Links to the sections."""

    sections: Sequence[Section]

    def html(self) -> str:
        """As HTML."""
        links = " ".join(
            f'<a href="#{escape(section.anchor)}">{escape(section.title)}</a>' for section in self.sections
        )
        return f"<nav>{links}</nav>"


def _inline(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def page(title: str, lead: str, sections: Sequence[Section], facts: Mapping[str, str]) -> str:
    """The whole page; `facts`, if there are any, close it as "What was run".

    >>> "<h1>A &lt; B</h1>" in page("A < B", "", [], {"seed": "0"})
    True
    """
    closing = [Section("What was run", [Facts(facts)])] if facts else []
    body = "\n".join(section.html() for section in [*sections, *closing])
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{CSS}</style></head>
<body><header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>
<main>{body}</main>
<footer>Made by hedgerow {escape(hedgerow.__version__)}.</footer></body></html>
"""


def write(path: Path, text: str) -> Path:
    """The page as a file; whoever looks meanwhile sees the old one or the new one, whole."""
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    return path
