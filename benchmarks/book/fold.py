"""Fold the rows in book/rows into the pages of docs/book, and the measured tables into the pages that quote them.

python benchmarks/book/fold.py [--out DOCS]    (make book); DOCS is docs/ unless told otherwise

Every figure and table of these pages comes from rows that are in the repository, by the same reports that
`hedgerow paper` and `hedgerow study` write. Folding again gives the same bytes (tests/test_book.py).
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from book import measured  # noqa: E402
from book.html_to_markdown import markdown  # noqa: E402
from book.rows import ROWS, unpack  # noqa: E402
from hedgerow.experiment import results  # noqa: E402
from hedgerow.paper.report import report as paper_report  # noqa: E402
from hedgerow.study.report import report as study_report  # noqa: E402
from hedgerow.study.studies import STUDIES  # noqa: E402

INDEX = """# The book of results

Rows that were run once and are kept in the repository (`book/rows`), and the pages that `make book` folds from them.
Each page ends with what was run; the commit is the one that ran it. Nothing on these pages was typed by hand.

{table}

In the paper's table every method, ours too, has the inputs that the paper prescribes; with its own, our learner makes
fewer mistakes. Studies have five orders of one split.

Beside them: [our own learner against the paper's methods](../../benchmarks/own_learner/RESULTS.md),
[against other packages](../../benchmarks/peers/RESULTS.md), and [speed](../../benchmarks/RESULTS.md), each folded from
rows of its own.

To add or to replace rows: run `hedgerow paper --what all --out DIR` or `hedgerow study all --out DIR`, keep them, fold:

```text
python benchmarks/book/rows.py DIR NAME
make book
```

```{{toctree}}
:hidden:

{names}
```
"""


def fold(docs: Path, rows: Path = ROWS) -> list[Path]:
    """All pages; what was written."""
    book = docs / "book"
    shutil.rmtree(book, ignore_errors=True)
    book.mkdir(parents=True)
    lines, names = ["| page | rows | commit | run with |", "|---|---|---|---|"], []
    for path in sorted(rows.glob("*.json")):
        title, about = _page(path.stem, book, rows)
        versions = "; ".join(map(str, _list(about["versions"])))
        lines.append(f"| [{title}]({path.stem}.md) | {about['rows']:,} | `{about['commit']}` | {versions} |")
        names.append(path.stem)
    index = book / "index.md"
    index.write_text(INDEX.format(table="\n".join(lines), names="\n".join(names)), encoding="utf-8")
    return [index, *(book / f"{name}.md" for name in names)]


def _page(name: str, book: Path, rows: Path) -> tuple[str, dict[str, object]]:
    """The page of one set of rows, its figures beside it; its title, and what is known about the rows."""
    with tempfile.TemporaryDirectory() as temporary, contextlib.chdir(temporary):  # so that no path is in the page
        about = unpack(name, Path(name), rows)
        study = {row["group"] for row in results.read(name).rows} <= set(STUDIES)
        page = (study_report if study else paper_report)(name)
        text = markdown(page.read_text(encoding="utf-8"), _Figures(Path(name) / "figures", book / name))
    title = re.search(r"^# (.*)$", text, flags=re.M)
    assert title is not None
    what = f"{title[1]} ({name})"
    versions = "; ".join(_list(about["versions"]))
    made = f"*{about['rows']:,} runs, by commit `{about['commit']}` with {versions}. What was run stands at the end.*"
    text = text.replace(title[0], f"# {what}\n\n{made}", 1)
    (book / f"{name}.md").write_text(text, encoding="utf-8")
    return what, about


class _Figures:
    """Keeps the figures of a page under the names that the report gave them."""

    def __init__(self, made: Path, kept: Path) -> None:
        self._names = {path.read_text(encoding="utf-8"): path.stem for path in sorted(made.glob("*.svg"))}
        self._kept = kept

    def __call__(self, svg: str, alt: str) -> str:
        name = self._names[svg]
        self._kept.mkdir(exist_ok=True)
        (self._kept / f"{name}.svg").write_text(svg, encoding="utf-8")
        return f"{self._kept.name}/{name}.svg"


def _list(found: object) -> list[str]:
    assert isinstance(found, list)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    given = parser.parse_args()
    for written in [
        *fold(given.out.resolve()),
        *(measured.fill(ROOT / "docs" / name, given.out.resolve() / name) for name in measured.PAGES),
    ]:
        print(written)
