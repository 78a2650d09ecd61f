"""The wheel on every Python that it is for: the oldest packages on the oldest Python, the newest on all.

    python release/matrix.py [--python PATH ...] [--write RELEASING.md]

Builds the wheel and runs `release/smoke.py` on each Python that is found: on the PATH, of pyenv, or named by
`--python` (that of a chroot: a script that calls it there). `--write` puts the table between the marks of a page.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
MARKS = "<!-- matrix -->", "<!-- end of the matrix -->"


def pythons(named: list[str]) -> dict[str, str]:
    """A Python of each version, those that were named first."""
    known = {}
    for version in VERSIONS:
        ours = glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python"))
        for path in [*named, *ours, shutil.which(f"python{version}")]:
            if path and _version(path).startswith(f"{version}.") and version not in known:
                known[version] = path
    return known


def _version(python: str) -> str:
    command = [python, "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main() -> int:
    """Exit code 1 if something did not work, or a Python is missing."""
    parser = argparse.ArgumentParser(description="Try the wheel on every Python that it is for.")
    parser.add_argument(
        "--python", action="append", default=[], help="a Python to try beside those that are found"
    )
    parser.add_argument("--write", type=Path, help="the page that gets the table")
    chosen = parser.parse_args()
    rows, failed = [], False
    with tempfile.TemporaryDirectory(prefix="hedgerow-matrix-") as folder:
        build = [
            sys.executable,
            "-m",
            "build",
            "--no-isolation",
            "--wheel",
            "--outdir",
            folder,
            str(ROOT),
        ]
        subprocess.run(build, check=True, capture_output=True)
        wheel = next(Path(folder).glob("*.whl"))
        known = pythons(chosen.python)
        for version, lowest in [(VERSIONS[0], True), *((version, False) for version in VERSIONS)]:
            packages, python = "oldest" if lowest else "newest", known.get(version)
            if python is None:
                outcome, ok = "not found on this machine", False
            else:
                command = [
                    python,
                    str(ROOT / "release" / "smoke.py"),
                    str(wheel),
                    *(["--lowest"] if lowest else []),
                ]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                ok = done.returncode == 0
                outcome = (
                    "all worked" if ok else (done.stderr.strip().splitlines() or ["no message"])[-1]
                )
                version = _version(python)
            failed |= not ok
            rows.append(f"| {version} | {packages} | {outcome} |")
            print(rows[-1], flush=True)
    if chosen.write:
        table = "\n".join(
            [
                MARKS[0],
                "| Python | packages | `release/smoke.py` |",
                "|---|---|---|",
                *rows,
                MARKS[1],
            ]
        )
        text = chosen.write.read_text(encoding="utf-8")
        chosen.write.write_text(
            re.sub(f"{MARKS[0]}.*{MARKS[1]}", lambda _: table, text, flags=re.DOTALL),
            encoding="utf-8",
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
