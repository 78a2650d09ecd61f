"""What the wheel and the source archive hold: every file that belongs there, and nothing else."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (
    "src",
    "tests",
    "docs",
    "reproduction",
    "bench",
    "examples",
    "release",
    "deploy",
    "conda",
)
FILES = (
    "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "DESIGN.md", "LICENSE", "MANIFEST.in", "Makefile", "README.md",
    "RELEASING.md", "constraints.txt", "pyproject.toml", ".dockerignore",
)  # fmt: skip
NOT_RELEASED = (".ci", ".github", ".gitignore")  # of the repository alone
CACHES = ("__pycache__", ".hypothesis", ".pytest_cache")
MADE_BY_THE_BUILD = ("PKG-INFO", "setup.cfg")
DIST_INFO = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt")


def tree(folder: Path) -> set[str]:
    """The files below a folder, relative to the root; what tools leave behind is no part of it."""
    found = (path.relative_to(ROOT) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if not _left_behind(path)}


def _left_behind(path: Path) -> bool:
    return any(part in CACHES or part.endswith(".egg-info") for part in path.parts)


def of_wheel(path: Path) -> set[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(path) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def of_sdist(path: Path) -> set[str]:
    """The files of a source archive, without the folder around them."""
    with tarfile.open(path) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


def licences() -> set[str]:
    """Our own, and one beside every file of others that the page uses: `vendor/NAME.LICENSE` for `vendor/NAME.*`."""
    return {
        "LICENSE",
        *(path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("vendor/*.LICENSE")),
    }


def wheel_problems(found: set[str], version: str) -> list[str]:
    """What is missing in a wheel, what should not be there, and files of others without a licence."""
    info = f"hedgerow-{version}.dist-info"
    package = {name.removeprefix("src/") for name in tree(ROOT / "src" / "hedgerow")}
    expected = (
        package
        | {f"{info}/{name}" for name in DIST_INFO}
        | {f"{info}/licenses/{name}" for name in licences()}
    )
    return _differences("the wheel", found, expected) + _unlicensed(found)


def sdist_problems(found: set[str]) -> list[str]:
    """What is missing in a source archive, and what should not be there."""
    found = {name for name in found if not name.startswith("src/hedgerow.egg-info/")}
    expected = {*FILES, *MADE_BY_THE_BUILD}.union(*(tree(ROOT / folder) for folder in FOLDERS))
    return _differences("the source archive", found, expected)


def _differences(what: str, found: set[str], expected: set[str]) -> list[str]:
    missing = [
        f"{what} lacks {name}; see MANIFEST.in and package-data"
        for name in sorted(expected - found)
    ]
    return missing + [
        f"{what} has {name}, which does not belong there" for name in sorted(found - expected)
    ]


def _unlicensed(found: set[str]) -> list[str]:
    bundled = {name for name in found if "/vendor/" in name and ".dist-info/" not in name}
    licensed = {name.removesuffix(".LICENSE") for name in bundled if name.endswith(".LICENSE")}
    return [
        f"{name} is not ours and has no licence beside it (NAME.LICENSE)"
        for name in sorted(bundled)
        if not any(name.startswith(f"{licence}.") for licence in licensed)
    ]


def unknown_at_the_top(tracked: set[str]) -> list[str]:
    """Names at the top of the repository about which nobody decided whether they are released."""
    known = {*FOLDERS, *FILES, *NOT_RELEASED}
    names = sorted({name.partition("/")[0] for name in tracked} - known)
    return [
        f"{name}: say in release/contents.py and MANIFEST.in whether it is released"
        for name in names
    ]
