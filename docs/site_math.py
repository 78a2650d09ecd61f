"""Formulas of the pages, drawn in the reader's browser by KaTeX from docs/_static/katex: the site needs no network."""

from __future__ import annotations

import html
from typing import Any

FILES = ("katex/katex.min.js", "katex/auto-render.min.js")
START = """document.addEventListener("DOMContentLoaded", () => renderMathInElement(document.body, {
  delimiters: [{left: "\\\\(", right: "\\\\)", display: false}, {left: "\\\\[", right: "\\\\]", display: true}],
}));"""


def inline(formula: str) -> str:
    """As the browser is to find it.

    >>> inline("a < b")
    '<span class="math">\\\\(a &lt; b\\\\)</span>'
    """
    return f'<span class="math">\\({html.escape(formula)}\\)</span>'


def _inline(writer: Any, node: Any) -> None:
    from docutils.nodes import SkipNode

    writer.body.append(inline(node.astext()))
    raise SkipNode


def _block(writer: Any, node: Any) -> None:
    from docutils.nodes import SkipNode

    writer.body.append(f'<div class="math">\\[{html.escape(node.astext())}\\]</div>\n')
    raise SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("katex", (_inline, None), (_block, None))
    app.add_css_file("katex/katex.min.css")
    for file in FILES:
        app.add_js_file(file)
    app.add_js_file(None, body=START)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
