"""The book of results: rows of the experiments in the repository, and what is made of them.

python -m reproduction book                  full reports in out/book, and the measured tables of the pages in docs
python -m reproduction book keep OUT NAME    keep the results in the folder OUT as rows/NAME.jsonl.xz and NAME.json

NAME.json has the commands that fill the folder, the commit that ran them, and the versions that the rows name. Making
the pages again gives the same bytes.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from bench.ablation import ablation_page
from bench.record import ROOT, commit, latest, rows
from hedgerow.comparison import results
from hedgerow.comparison.results import KEY
from hedgerow.comparison.runner import COMMANDS
from hedgerow.comparison.tables import Table
from reproduction import paper, study
from reproduction.paper import PUBLISHED, PUBLISHED_METHODS, TASKS, family_of
from reproduction.runs import Runs

ROWS = ROOT / "reproduction" / "rows"
BLOCK = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->)", flags=re.S)
INDEX = """# The book of results

Rows that were run once and are kept in the repository (`reproduction/rows`), and the pages that
`python -m reproduction book` makes of them. Each page ends with what was run, by its present name; the
commit is the one that ran it. Nothing on these pages was typed by hand.

{table}

In the paper's table every method, ours too, has the inputs that the paper prescribes; with its own, our learner makes
fewer mistakes. Studies have five orders of one split.

To add or to replace rows: run `python -m reproduction --what all --out DIR` or
`python -m reproduction study all --out DIR`, then

```text
python -m reproduction book keep DIR NAME
python -m reproduction book
```
"""


# -- rows -------------------------------------------------------------------------------------------------------


def keep(out: Path, name: str, ran: str, folder: Path = ROWS) -> Path:
    """The rows of a folder of results that commit `ran` made; the same rows give the same bytes."""
    runs, _ = results.read(out)
    if not runs:
        raise SystemExit(
            f"{out / results.FILE} has no results; run `python -m reproduction` or a study first"
        )
    runs.sort(key=lambda row: [str(row[key]).zfill(6) for key in KEY])  # whoever was finished first
    lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in runs]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.jsonl.xz").write_bytes(lzma.compress("".join(lines).encode(), preset=9))
    log = out / COMMANDS
    commands = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    versions = {", ".join(f"{k} {v}" for k, v in row["versions"].items()) for row in runs}
    about = {
        "commands": [as_kept(line, name) for line in commands], "commit": ran, "rows": len(lines),
        "versions": sorted(versions),
    }  # fmt: skip
    path = folder / f"{name}.json"
    path.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return path


def as_kept(command: str, name: str) -> str:
    """A command without the folders of the machine that ran it.

    >>> as_kept("python -m reproduction --trials 2 --out /somewhere/else --data-dir=/here", "paper")
    'python -m reproduction --trials 2 --out paper'
    """
    plain = re.sub(r" --data-dir[= ]\S+", "", command)
    words = shlex.split(re.sub(r"--out=", "--out ", plain))
    return shlex.join(
        [
            name if before == "--out" else word
            for before, word in zip(["", *words], words, strict=False)
        ]
    )


def unpack(name: str, folder: Path, rows_folder: Path = ROWS) -> dict[str, Any]:
    """Into a folder of results, as a report reads it; what is known about the rows."""
    about: dict[str, Any] = json.loads((rows_folder / f"{name}.json").read_text(encoding="utf-8"))
    folder.mkdir(parents=True)
    (folder / results.FILE).write_bytes(
        lzma.decompress((rows_folder / f"{name}.jsonl.xz").read_bytes())
    )
    (folder / COMMANDS).write_text(
        "".join(f"{line}\n" for line in about["commands"]), encoding="utf-8"
    )
    return about


@cache
def runs_of(name: str) -> Runs:
    """The rows of one page."""
    with tempfile.TemporaryDirectory() as temporary:
        unpack(name, Path(temporary) / name)
        return Runs.read(Path(temporary) / name)


# -- pages ------------------------------------------------------------------------------------------------------


def write(book: Path, rows_folder: Path = ROWS) -> list[Path]:
    """All reports into a folder that is made anew; what was written."""
    shutil.rmtree(book, ignore_errors=True)
    book.mkdir(parents=True)
    lines = ["| page | rows | commit | run with |", "|---|---|---|---|"]
    names = []
    for path in sorted(rows_folder.glob("*.json")):
        title, about = _page(path.stem, book, rows_folder)
        versions = "; ".join(about["versions"])
        lines.append(
            f"| [{title}]({path.stem}.md) | {about['rows']:,} | `{about['commit']}` | {versions} |"
        )
        names.append(path.stem)
    index = book / "index.md"
    index.write_text(INDEX.format(table="\n".join(lines)), encoding="utf-8")
    return [index, *(book / f"{name}.md" for name in names)]


def _page(name: str, book: Path, rows_folder: Path) -> tuple[str, dict[str, Any]]:
    """The page of one set of rows, its figures beside it; its title, and what is known about the rows."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        contextlib.chdir(temporary),
    ):  # so that no path is in the page
        about = unpack(name, Path(name), rows_folder)
        (study if name.startswith("study") else paper).report(name)
        text = (
            (Path(name) / "report.md")
            .read_text(encoding="utf-8")
            .replace("](figures/", f"]({name}/")
        )
        (book / name).mkdir()
        for figure in sorted((Path(name) / "figures").glob("*.svg")):
            shutil.copy(figure, book / name)
    head, _, rest = text.partition("\n")
    title = f"{head.removeprefix('# ')} ({name})"
    versions = "; ".join(about["versions"])
    made = f"*{about['rows']:,} runs, by commit `{about['commit']}` with {versions}. What was run stands at the end.*"
    (book / f"{name}.md").write_text(f"# {title}\n\n{made}\n{rest}", encoding="utf-8")
    return title, about


def fill(page: Path, out: Path) -> Path:
    """A page with its measured blocks, `<!-- measured: NAME -->` to `<!-- end -->`, made anew."""
    text = page.read_text(encoding="utf-8")
    out.write_text(
        BLOCK.sub(lambda block: block[1] + BLOCKS[block[2]]() + "\n" + block[3], text),
        encoding="utf-8",
    )
    return out


# -- measured tables of other pages -----------------------------------------------------------------------------

OFFICE, FACES = (
    [t for t in TASKS if family_of(t) == family] for family in ("office-caltech", "pie")
)
FAMILIES = ("study-office-caltech", "study-pie", "study-amazon-reviews", "study-digits")
SHOWN = ("hedgerow", "hedgerow-linear", "oddm")
METHODS = (
    "hedgerow",
    "hedgerow-linear",
    "oddm-fixed",
    "oddm",
    "paio",
    "homotl-2",
    "homotlms",
    "pa",
)
COSTS = {  # what the row of a table is called: the point of a study
    "every label at once": ("delay", "0"),
    "labels 50 rows late": ("delay", "50"),
    "9 of 10 labels missing": ("missing", "90 %"),
    "99 of 100 labels missing": ("missing", "99 %"),
    "labels in batches of 50": ("batches", "50"),
    "half of the classes only in the target": ("late-classes", "only in the target: 50 %"),
    "the target changes abruptly": ("drift", "abrupt"),
}


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """As Markdown."""
    return Table("", "", head, lines).markdown().rstrip()


def methods() -> str:
    """Mistakes on four families, in the first 50 labels, calibration, and time beside our own learner's."""
    lines = latest(rows("nine"))
    frame = pd.DataFrame([line["setting"] | line["figures"] for line in lines])
    reviews, deep = (
        sorted(task for task in set(frame["task"]) if task.startswith(f"{data}/"))
        for data in ("amazon-reviews", "office-googlenet")
    )
    by_task = frame.groupby(["method", "task"]).mean(numeric_only=True)
    nine = frame[~frame["task"].isin([*reviews, *deep])]
    time = nine.groupby("method")["ms a row"].median()

    def mean(method: str, tasks: Sequence[str], figure: str = "mistakes %") -> str:
        there = [by_task[figure].get((method, task)) for task in tasks]
        return "–" if any(value is None for value in there) else f"{sum(there) / len(there):.1f}"

    made = [
        [
            f"`{method}`",
            mean(method, OFFICE), mean(method, FACES), mean(method, reviews), mean(method, deep),
            mean(method, (*OFFICE, *FACES), "first 50"),
            f"{nine[nine['method'] == method]['calibration'].mean():.2f}", f"{time[method] / time['hedgerow']:.2f}",
        ]
        for method in METHODS
    ]  # fmt: skip
    families = ("cameras, %", "faces, %", "reviews, %", "deep features, %")
    return table(("method", *families, "in the first 50", "calibration error", "time a row"), made)


def sizes() -> str:
    """What a model takes in a file and a key of a fleet on disk and in memory."""
    lines = [line for line in latest(rows("fleet")) if "file kB" in line["figures"]]
    made = [
        [f"`{line['setting']['method']}`, {line['setting']['features']} features"]
        + [f"{line['figures'][k]:,.0f}" for k in ("file kB", "state kB", "held kB")]
        for line in lines
    ]
    return table(
        ("after 20 labels, kB", "a model of its own", "a key of a fleet, on disk", "in memory"),
        made,
    )


def _share(page: str, task: str, method: str, point: tuple[str, str]) -> str:
    """Mean over the orders; a dash where nothing was run."""
    cell = runs_of(page).cell(point[0], task, method, point[1])
    return f"{cell.mean:.1f}" if cell else "–"


def _three(page: str, task: str, point: tuple[str, str]) -> str:
    """Our learner and, in brackets, its linear form and the paper's method; empty where nothing was run."""
    ours, *others = (_share(page, task, method, point) for method in SHOWN)
    return "" if ours == "–" else f"{ours} ({', '.join(others)})"


def reproduced() -> str:
    """The paper's table: our means, and in brackets those that were published; at the end the averages."""
    names = (*PUBLISHED_METHODS, SHOWN[0])
    ours = {name: [runs_of("paper").cell("table", task, name) for task in TASKS] for name in names}
    made = []
    for i, (task, title) in enumerate(TASKS.items()):
        cells = []
        for name in names:
            cell = ours[name][i]
            assert cell is not None
            published = PUBLISHED.get((task, name))
            cells.append(f"{cell.mean:.1f}" + (f" ({published.mean:.1f})" if published else ""))
        made.append([title, *cells])
    means = [fmean(cell.mean for cell in ours[name] if cell) for name in names]
    made.append(["Average", *(f"{mean:.2f}" for mean in means)])
    return table(("mistakes, %", *(f"`{name}`" for name in names)), made)


def families() -> str:
    """What some troubles cost on the target of each family."""
    targets = [(page, task) for page in FAMILIES for task in runs_of(page).tasks("delay")]
    made = [
        [words, *(_three(page, task, point) for page, task in targets)]
        for words, point in COSTS.items()
    ]
    return table(("mistakes, %", *(task for _, task in targets)), made)


def ablation() -> str:
    """What each part of our learner is worth."""
    return "\n".join(ablation_page(latest(rows("ablation")))).strip()


BLOCKS: dict[str, Callable[[], str]] = {
    each.__name__: each for each in (methods, sizes, families, reproduced, ablation)
}
PAGES = ("guide.md", "results.md", "streams.md", "paper.md", "learner.md")


def main(words: Sequence[str]) -> int:
    """Make the pages, or keep the results of a folder."""
    if words and words[0] == "keep" and len(words) == 3:
        print(keep(Path(words[1]), words[2], commit()))
        return 0
    if words:
        raise SystemExit(__doc__)
    for path in [
        *write(ROOT / "out" / "book"),
        *(fill(ROOT / "docs" / name, ROOT / "docs" / name) for name in PAGES),
    ]:
        print(path)
    return 0
