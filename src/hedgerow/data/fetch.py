"""From a data set's name to files on disk: a folder of the user's, else the cache, else one download, checked.

Looked at in this order:

1. `data_dir`, if given: the files are there, or it is an error. A folder that was named is not silently replaced by a
   download, for two forms of one data set can differ (the pixels of PIE do).
2. the folder in the environment variable `HEDGEROW_DATA`, if set;
3. the user's cache, filled from the public address on first use.

In each of them a layout's own folder is tried first (`<dir>/homotl_oddm/amazon.mat`), then the folder itself.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hedgerow.core.errors import DataMissing, require
from hedgerow.data.catalog import DataSet, File

ENVIRONMENT = "HEDGEROW_DATA"
TIMEOUT = 30  # seconds without a byte before a download is given up


def locate(data_set: DataSet, root: Path) -> list[Path] | None:
    """The data set's files under this folder, one a domain, or None if no layout is complete there."""
    for layout in data_set.layouts:
        for folder in (root / layout.folder, root):
            paths = [folder / file.name for file in layout.files]
            if all(path.is_file() for path in paths):
                return paths
    return None


def folder_from(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """The folder the user named, by argument or by environment; it must exist."""
    named = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT)
    if not named:
        return None
    root = Path(named).expanduser()
    if not root.is_dir():
        origin = "the data directory" if data_dir is not None else ENVIRONMENT
        raise DataMissing(f"{origin} is {str(root)!r}, and there is no such folder; correct it or leave it out")
    return root


def cache_folder() -> Path:
    """Where downloads are kept, laid out like a user's own data folder."""
    return Path(require("pooch", extra="data").os_cache("hedgerow"))


def obtain(
    data_set: DataSet,
    data_dir: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    mirror: str | None = None,
) -> list[Path]:
    """The files of a data set, one a domain; downloaded into the cache if they are nowhere on this machine."""
    root = folder_from(data_dir)
    if root is not None:
        paths = locate(data_set, root)
        if paths is not None:
            return paths
        if data_dir is not None:
            raise DataMissing(_advice(data_set, root, ""))
    kept = cache_folder() if cache is None else Path(cache)
    paths = locate(data_set, kept)
    return paths if paths is not None else _download_all(data_set, root, kept, mirror)


def _download_all(data_set: DataSet, root: Path | None, cache: Path, mirror: str | None) -> list[Path]:
    layout = data_set.layouts[0]
    folder = cache / layout.folder
    paths = []
    for file in layout.files:
        url = file.url if mirror is None else f"{mirror.rstrip('/')}/{file.name}"
        path = folder / file.name
        try:
            if not path.is_file():
                download(file, url, path)
        except OSError as error:  # no network, no such page, no space: all of them are OSErrors here
            reason = str(error) if isinstance(error, DataMissing) else f"downloading {url} failed ({_brief(error)})"
            raise DataMissing(_advice(data_set, root or cache, reason)) from error
        paths.append(path)
    return paths


def download(file: File, url: str, path: Path) -> None:
    """Bring one file here, and let it stand under its name only if its check holds."""
    pooch = require("pooch", extra="data")
    log = pooch.get_logger()
    level = log.level
    log.setLevel("WARNING")  # pooch would advise to paste the hash it found: the opposite of a check
    unchecked = path.with_name(path.name + ".unchecked")
    unchecked.unlink(missing_ok=True)
    try:
        pooch.retrieve(
            url,
            known_hash=None,  # git blob ids are no hash that pooch knows, so all checks are made in one place: below
            fname=unchecked.name,
            path=path.parent,
            downloader=pooch.HTTPDownloader(timeout=TIMEOUT),
        )
        found = fingerprint(unchecked, file.check.partition(":")[0])
        if found != file.check:
            raise DataMissing(f"{url} is not the published file (expected {file.check}, got {found}) and was deleted")
        os.replace(unchecked, path)
    finally:
        unchecked.unlink(missing_ok=True)
        log.setLevel(level)


def fingerprint(path: Path, kind: str) -> str:
    r"""`sha256:` of the content, or `git-blob:`, the sha1 of b"blob <size>\0" + content, by which git names a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "empty").write_bytes(b"")
    ...     print(fingerprint(Path(folder) / "empty", "git-blob"))
    git-blob:e69de29bb2d1d6434b8b29ae775ad8c2e48c5391
    """
    content = path.read_bytes()
    if kind == "git-blob":
        digest = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        return f"git-blob:{digest.hexdigest()}"
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _brief(error: OSError) -> str:
    """The innermost cause in one line: what requests wraps around it is of no use to a reader."""
    cause: BaseException = error
    while isinstance(inner := (cause.__cause__ or cause.__context__), Exception):
        cause = inner
    return f"{type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else 'no further message'}"


def _advice(data_set: DataSet, looked: Path, reason: str) -> str:
    layout = data_set.layouts[0]
    missing = [
        f.name for f in layout.files if not any((d / f.name).is_file() for d in (looked / layout.folder, looked))
    ]
    others = [f"{other.folder}/ ({', '.join(file.name for file in other.files)})" for other in data_set.layouts[1:]]
    return (
        f"data set {data_set.name!r}: not found in {str(looked)!r}: {layout.folder}/ lacks {', '.join(missing)}"
        + (f", nor is there {' or '.join(others)}" if others else "")
        + (f"; {reason}" if reason else "")
        + f". Download the files from {data_set.home} into <dir>/{layout.folder}/ and set {ENVIRONMENT}=<dir> "
        "(or give --data-dir <dir>)" + ("; without --data-dir they are downloaded for you" if not reason else "")
    )
