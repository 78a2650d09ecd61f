"""Run benchmarks: `python -m bench replay live fleet keys=2000`, all of them without a name, `--list` to see them.

Every row is printed and appended to OUT/NAME.jsonl (bench/rows), with command, commit, machine and load; `--pages` then
writes bench/RESULTS.md from what is there. NAME=VALUE goes to the benchmarks that have such an option; `--quick` takes
the smallest size there is (a test that all of them run).
"""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from bench import pages
from bench.record import ROWS, record


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="NAME | NAME=VALUE")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=ROWS)
    parser.add_argument(
        "--pages", action="store_true", help="write the pages from the rows, run nothing"
    )
    parser.add_argument("--list", action="store_true", help="the benchmarks and their options")
    given = parser.parse_args()
    names = [word for word in given.words if "=" not in word] or [
        n for n in pages.BENCHMARKS if n not in pages.BY_NAME
    ]
    options = dict(word.split("=", 1) for word in given.words if "=" in word)
    if given.list:
        for name in pages.BENCHMARKS:
            print(name, *(f"{key}={default}" for key, default in _options(name).items()))
        return 0
    unknown = [name for name in names if name not in pages.BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(pages.BENCHMARKS)}")
    failed = []
    for name in () if given.pages else names:
        taken = {
            key: type(default)(options[key])
            for key, default in _options(name).items()
            if key in options
        }
        threads = 1 if pages.BENCHMARKS[name][0] == "speed" else None
        try:
            with threadpool_limits(threads):
                for row in pages.function(name)(given.quick, **taken):
                    record(name, row, out=given.out)
                    shown = {**row.setting, **row.figures}.items()
                    print(
                        name,
                        *(f"{key}: {pages.number(value)}," for key, value in shown),
                        flush=True,
                    )
        except Exception as error:  # a broken benchmark must not lose the figures of the others
            failed.append(f"{name}: {type(error).__name__}: {error}")
    if given.out == ROWS and not given.quick:
        pages.write()
    for line in failed:
        print(line, file=sys.stderr)
    return len(failed)


def _options(name: str) -> dict[str, Any]:
    parameters = inspect.signature(pages.function(name)).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


if __name__ == "__main__":
    sys.exit(main())
