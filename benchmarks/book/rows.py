"""Rows of the book: results of `hedgerow paper` and `hedgerow study`, compressed, with what is known of their making.

python benchmarks/book/rows.py OUT NAME    keep the results in the folder OUT as book/rows/NAME.jsonl.xz and NAME.json

NAME.json has the commands that filled the folder, the commit that ran them, and the versions that the rows name.
"""

from __future__ import annotations

import json
import lzma
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hedgerow.experiment import results
from hedgerow.experiment.command import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "book" / "rows"


def keep(out: Path, name: str, commit: str, folder: Path = ROWS) -> Path:
    """The rows of a folder of results; the same rows give the same bytes."""
    found = results.read(out)
    if not found.rows:
        raise SystemExit(f"{out / results.FILE} has no results; run `hedgerow paper --out {out}` or a study first")
    lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in in_order(found.rows)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.jsonl.xz").write_bytes(lzma.compress("".join(lines).encode(), preset=9))
    log = out / COMMANDS
    given = log.read_text(encoding="utf-8") if log.is_file() else ""
    about = {
        "commands": [as_kept(line, name) for line in given.splitlines()],
        "commit": commit,
        "rows": len(lines),
        "versions": sorted({versions_of(row) for row in found.rows}),
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return path


def as_kept(command: str, name: str) -> str:
    """A command without the folders of the machine that ran it.

    >>> as_kept("hedgerow paper --trials 2 --out /somewhere/else --data-dir=/here", "paper")
    'hedgerow paper --trials 2 --out paper'
    """
    words: list[str] = []
    for word in shlex.split(command):
        before = words[-1] if words else ""
        if word.startswith("--data-dir="):
            continue
        if before == "--data-dir":
            words.pop()
        elif before == "--out":
            words.append(name)
        else:
            words.append(f"--out={name}" if word.startswith("--out=") else word)
    return shlex.join(words)


def in_order(rows: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """By what was run, whoever was finished first."""
    return sorted(rows, key=lambda row: [str(row[name]).zfill(6) for name in results.KEY])


def versions_of(row: dict[str, object]) -> str:
    """As one line: python 3.11.7, numpy 2.4.6, ..."""
    versions = row.get("versions")
    assert isinstance(versions, dict)
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def unpack(name: str, folder: Path, rows: Path = ROWS) -> dict[str, object]:
    """Into a folder of results, as a report reads it; what is known about the rows."""
    about: dict[str, object] = json.loads((rows / f"{name}.json").read_text(encoding="utf-8"))
    folder.mkdir(parents=True)
    (folder / results.FILE).write_bytes(lzma.decompress((rows / f"{name}.jsonl.xz").read_bytes()))
    commands = about["commands"]
    assert isinstance(commands, list)
    (folder / COMMANDS).write_text("".join(f"{line}\n" for line in commands), encoding="utf-8")
    return about


def rows_in(name: str, rows: Path = ROWS) -> list[dict[str, Any]]:
    """The rows of one page."""
    text = lzma.decompress((rows / f"{name}.jsonl.xz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def commit_here() -> str:
    """The commit of this checkout, and whether the package was changed since."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    changed = git("status", "--porcelain", "--", "src")
    return git("rev-parse", "--short=12", "HEAD") + (" with changes" if changed else "")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    print(keep(Path(sys.argv[1]), sys.argv[2], commit_here()))
