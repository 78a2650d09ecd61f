"""Links of the pages that lead to files and folders of the repository, which are no pages of the site.

On a code host `[fleets](../bench)` opens the folder. The site has no such page: there the link's words
stay and its address is shown as the path that it is. A link to nothing at all stays as it is, for the warning that it
deserves.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")
PAGES = (".md", ".rst")
MADE = {"examples/gallery": "/docs/gallery/index.rst"}  # folders that pages are made of


def without_files(text: str, folder: Path, root: Path) -> str:
    """The text, with links to files that are no pages written as words and a path.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp()); _ = (root / "a.py").write_text("")
    >>> without_files("see [it](a.py) and [that](b.md)", root, root)
    'see it (`a.py`) and [that](b.md)'
    """

    def found(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        path = (folder / target).resolve()
        if (
            "://" in target
            or target.endswith(PAGES)
            or not path.exists()
            or root not in (path, *path.parents)
        ):
            return match[0]
        where = path.relative_to(root).as_posix()
        if where in MADE:
            return f"[{words}]({MADE[where]})"
        return f"`{where}`" if words.strip("`") == where else f"{words} (`{where}`)"

    return LINK.sub(found, text)


def _read(app: Any, docname: str, content: list[str]) -> None:
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".md":
        content[0] = without_files(content[0], path.parent, Path(app.srcdir).resolve())


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
