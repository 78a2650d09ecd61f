"""Build the wheel and the source archive, check what is in them, and let the source archive pass its own tests.

    python release/check.py             built, checked, and a representative part of the tests (in `make check`)
    python release/check.py --all       the whole suite, in an environment of its own (before a release)

The wheel is built from the source archive, so that one is complete. The tests that come with the archive then run
against the installed wheel, in a folder where no checkout is. The quick form borrows the packages of the environment
it is started in; --all installs everything by constraints.txt.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

from contents import (
    ROOT,
    licences,
    of_sdist,
    of_wheel,
    sdist_problems,
    unknown_at_the_top,
    wheel_problems,
)

# Something of each layer, without browser, brokers or Java: what was left out of a wheel shows here.
QUICK = (
    "tests/unit/test_imports.py", "tests/unit/test_laws_moments.py", "tests/unit/test_release.py",
    "tests/unit/test_outside_parts.py", "tests/integration/page/test_files.py",
)  # fmt: skip


def main() -> int:
    """Exit code 0 if all is well; else every problem, a line each."""
    parser = argparse.ArgumentParser(
        description="Build, check and test the wheel and the source archive."
    )
    parser.add_argument(
        "--all", action="store_true", help="the whole suite, in an environment of its own"
    )
    parser.add_argument(
        "--only", default="", help="with --all: arguments for pytest, e.g. 'tests/unit'"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where both archives go")
    chosen = parser.parse_args()
    sdist, wheel = build(chosen.out)
    problems = found_wrong(sdist, wheel)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    if problems:
        return 1
    print(f"{wheel.name}: {len(of_wheel(wheel))} files, {wheel.stat().st_size / 1e6:.2f} MB")
    print(f"{sdist.name}: {len(of_sdist(sdist))} files, {sdist.stat().st_size / 1e6:.2f} MB")
    with tempfile.TemporaryDirectory(prefix="hedgerow-release-") as folder:
        return tested(sdist, wheel, Path(folder), chosen.only.split() if chosen.all else None)


def build(out: Path) -> tuple[Path, Path]:
    """Both archives, made of what is in the working directory now."""
    shutil.rmtree(out, ignore_errors=True)
    # egg-info remembers the files of earlier builds, and would bring back what was deleted since
    shutil.rmtree(ROOT / "src" / "hedgerow.egg-info", ignore_errors=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}\nerror: the archives could not be built")
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def found_wrong(sdist: Path, wheel: Path) -> list[str]:
    """Everything that is wrong with the two, before anything of them is run."""
    version = wheel.name.split("-")[1]
    problems = wheel_problems(of_wheel(wheel), version) + sdist_problems(of_sdist(sdist))
    if (ROOT / ".git").exists():
        tracked = subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        problems += unknown_at_the_top(set(tracked.split("\n")) - {""})
    with ZipFile(wheel) as archive:
        text = archive.read(f"hedgerow-{version}.dist-info/METADATA").decode("utf-8")
    return problems + metadata_problems(text) + version_problems(version)


def metadata_problems(text: str) -> list[str]:
    """What an index page would show and an installer would read."""
    metadata = HeaderParser().parsestr(text)
    problems = [f"the metadata has no {name}" for name in NEEDED if not metadata.get(name)]
    if set(metadata.get_all("License-File") or ()) != licences():
        problems.append(
            f"licences: the metadata names {metadata.get_all('License-File')}, there are {licences()}"
        )
    if metadata.get("Description-Content-Type") != "text/markdown":
        problems.append("the README must be named as text/markdown")
    return problems + readme_problems(str(metadata.get_payload()))


NEEDED = (
    "Name",
    "Version",
    "Summary",
    "Requires-Python",
    "License-Expression",
    "Author",
    "Keywords",
    "Classifier",
)


def readme_problems(text: str) -> list[str]:
    """As an index renders it: every heading, table and piece of code must come through."""
    from readme_renderer.markdown import render

    page = render(text)
    if page is None:
        return ["the README does not render"]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    wanted = {
        "<h2": len(re.findall(r"^## ", prose, flags=re.M)),
        "<table": len(re.findall(r"^\|[-|: ]+\|$", prose, flags=re.M)),
        "<pre": len(re.findall(r"^```", text, flags=re.M)) // 2,
    }
    return [
        f"the README has {count} of {tag}>, rendered {page.count(tag)}"
        for tag, count in wanted.items()
        if page.count(tag) != count
    ]


def version_problems(version: str) -> list[str]:
    """The version stands in four places, and is the same in all of them."""
    places = {
        "src/hedgerow/__init__.py": r'^__version__ = "(.+)"$',
        "pyproject.toml": r'^version = "(.+)"$',
        "CITATION.cff": r"^version: (.+)$",
        "CHANGELOG.md": r"^## (\d\S*)",
    }
    found = {
        name: re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.M)
        for name, pattern in places.items()
    }
    return [
        f"{name} says version {match[1] if match else 'nothing'}, the wheel is {version}"
        for name, match in found.items()
        if match is None or match[1] != version
    ]


def tested(sdist: Path, wheel: Path, folder: Path, everything: list[str] | None) -> int:
    """The exit code of the archive's own tests, run against the installed wheel."""
    subprocess.run(["tar", "-xf", sdist, "-C", folder], check=True)
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    python = folder / "venv" / "bin" / "python"
    if everything is None:
        _borrowing(folder / "venv", wheel)
        tests = ["-n", "0", *QUICK]
    else:
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*install, "--constraint", ROOT / "constraints.txt", f"{wheel}[dev]"], check=True
        )
        tests = everything or ["-n", "auto"]
    where = subprocess.check_output(
        [python, "-c", "import hedgerow; print(hedgerow.__file__)"], text=True, cwd=unpacked
    )
    if not Path(where.strip()).is_relative_to(folder / "venv"):
        print(f"error: the tests would run against {where.strip()}, not the wheel", file=sys.stderr)
        return 1
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=unpacked, env=_environment(folder)).returncode


def _borrowing(venv: Path, wheel: Path) -> None:
    """An environment that has the wheel, and everything else from the one this runs in."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    site = subprocess.check_output(
        [venv / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        text=True,
    ).strip()
    # a line in a .pth file adds the folder, and not the .pth files in it: our editable install stays unseen
    Path(site, "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        venv / "bin" / "python",
    ]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)


def _environment(folder: Path) -> dict[str, str]:
    """Ours, with the new environment's commands first, and its own folder for compiled loops."""
    path = f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


if __name__ == "__main__":
    sys.exit(main())
