"""The speed benchmark: every figure a ratio or a count measured side by side in one run.

    python benchmarks/bench.py [--out out/bench] [--only jda,startup] [--again]

Runs the sections in benchmarks/speed/ one after the other, with one BLAS thread unless a section says otherwise. Each
row goes to OUT/rows.jsonl as soon as it is measured, with the versions and the machine it was measured on. A section
that finished with the sources as they are is skipped, so a run can be interrupted and resumed; `--only NAME` and
`--again` measure anew. At the end, and whenever asked, `table.py OUT` folds the rows into a table and plots.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import table

HERE = Path(__file__).parent
SOURCES = HERE.parent / "src" / "hedgerow"
FINISHED = "finished"


def sections() -> list[str]:
    """The names of the files in benchmarks/speed/."""
    return sorted(path.stem for path in (HERE / "speed").glob("*.py") if path.stem != "__init__")


def fingerprint(section: str) -> str:
    """Of the library, of what sections measure with, and of the section: figures are those of these sources."""
    digest = hashlib.sha256()
    tools = [*HERE.glob("naive*.py"), *HERE.glob("*side*.py")]
    for path in [*sorted(SOURCES.rglob("*.py")), *sorted(tools), HERE / "speed" / f"{section}.py"]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def machine() -> dict[str, Any]:
    """What the figures depend on besides the sources."""
    from importlib.metadata import version

    from threadpoolctl import threadpool_info

    pools = threadpool_info()
    blas = {
        f"{p['internal_api']} {p['version']} ({p.get('architecture', '?')})" for p in pools if p["user_api"] == "blas"
    }
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "blas": sorted(blas),
        "threads": max((p["num_threads"] for p in pools), default=1),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{name: version(name) for name in ("hedgerow", "numpy", "scipy", "numba", "scikit-learn")},
    }


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def run(name: str, out: Path) -> int:
    """Measure one section, row by row into the file; the number of rows."""
    import scipy.linalg  # noqa: F401  (threads are limited only in libraries that are loaded already)
    import sklearn.utils  # noqa: F401
    from threadpoolctl import threadpool_limits

    section: ModuleType = importlib.import_module(f"speed.{name}")
    mark, count, began = fingerprint(name), 0, time.perf_counter()
    with threadpool_limits(getattr(section, "THREADS", 1)):
        facts = machine()
        for row in section.measure():
            append(out, {"section": name, **row, "sources": mark, "machine": facts})
            count += 1
            print(f"  {table.line(row)}", flush=True)
    seconds = time.perf_counter() - began
    append(out, {"section": name, FINISHED: count, "sources": mark, "took": round(seconds, 1)})
    return count


def append(out: Path, row: dict[str, Any]) -> None:
    """One line, on disk before the next is measured."""
    with (out / table.ROWS).open("a") as file:
        file.write(json.dumps(row) + "\n")


def wanted(only: str, again: bool, out: Path) -> Iterator[str]:
    """Sections to run now: those named, or all that are not explicit and did not finish with these sources."""
    known = sections()
    if only:
        names = [name.strip() for name in only.split(",") if name.strip()]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise SystemExit(f"no section {', '.join(unknown)}; there are {', '.join(known)}")
        yield from names
        return
    done = {(r["section"], r["sources"]) for r in table.read(out) if FINISHED in r}
    for name in known:
        if "EXPLICIT = True" in (HERE / "speed" / f"{name}.py").read_text():
            print(f"{name}: takes long, runs only with --only {name}")
        elif (name, fingerprint(name)) in done and not again:
            print(f"{name}: measured already")
        else:
            yield name


def main() -> None:
    """Run, then fold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    parser.add_argument("--only", default="", help="sections by name, joined by commas")
    parser.add_argument("--again", action="store_true", help="measure what was measured already")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    names = list(wanted(given.only, given.again, given.out))
    failed = []
    for i, name in enumerate(names, 1):
        print(f"[{i}/{len(names)}] {name}", flush=True)
        try:
            run(name, given.out)
        except Exception as error:  # a broken section must not lose the figures of the others
            failed.append(name)
            print(f"  {name} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    table.fold(given.out)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
