"""Names of models: one folder each inside the models folder, and never anywhere else."""

from __future__ import annotations

import re
from pathlib import Path

from hedgerow.service.problems import Problem, invalid

PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def is_name(name: str) -> bool:
    r"""Whether this can be the name of a model.

    >>> is_name("site-a.2"), is_name(".."), is_name("a/b"), is_name("a\n")
    (True, False, False, False)
    """
    return _NAME.fullmatch(name) is not None


def folder_of(models: Path, name: str) -> Path:
    """Where a model of this name is; a link is refused, since it could lead anywhere."""
    if not is_name(name):
        raise invalid(
            "name", "a name has up to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit"
        )
    folder = models / name
    if folder.is_symlink():
        raise Problem("taken", f"{name!r} is a link in the models folder; links are not followed")
    return folder


def model_folders(models: Path) -> list[Path]:
    """The folders that can be models; hidden ones and links are left out."""
    return sorted(path for path in models.iterdir() if is_name(path.name) and path.is_dir() and not path.is_symlink())


def model_files(models: Path) -> list[Path]:
    """Model files that have no folder yet: each becomes a live model of its name."""
    files = (path for path in models.glob("*.safetensors") if is_name(path.stem) and path.is_file())
    return sorted(path for path in files if not path.is_symlink() and not (models / path.stem).exists())
