"""One file of several parts, each with its digest: a zip archive whose first member says what it is."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hedgerow.core.errors import InputError

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Parted:
    """A kind of such files: what it is called, the schema of its manifest, the names of its parts.

    >>> import pathlib, tempfile
    >>> notes = Parted("notes", 1, ("text",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "n"
    ...     path.write_bytes(notes.to_bytes({"by": "me"}, {"text": b"hello"})) > 0
    ...     about, parts = notes.read(path)
    True
    >>> about["by"], parts
    ('me', {'text': b'hello'})
    """

    noun: str
    schema: int
    parts: tuple[str, ...]

    @property
    def format(self) -> str:
        """As it stands in a file."""
        return f"hedgerow {self.noun}"

    def to_bytes(self, about: Mapping[str, Any], parts: Mapping[str, bytes]) -> bytes:
        """A file; `about` joins its manifest."""
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
        manifest = {"format": self.format, "schema": self.schema, **about, "digests": digests}
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, data in {MANIFEST: json.dumps(manifest).encode(), **parts}.items():
                archive.writestr(zipfile.ZipInfo(name), data)  # with no time in it: the same content is the same bytes
        return out.getvalue()

    def read(self, file: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The manifest and the parts of a file that is whole; anything else is an error that says so."""
        try:
            with zipfile.ZipFile(file) as archive:
                manifest = json.loads(archive.read(MANIFEST))
                parts = {name: archive.read(name) for name in self.parts}
            good = manifest["format"] == self.format and manifest["schema"] == self.schema
            whole = all(hashlib.sha256(data).hexdigest() == manifest["digests"][name] for name, data in parts.items())
        except FileNotFoundError:
            raise InputError(f"no file at {file}") from None
        except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise InputError(f"{file} is not a {self.noun} of hedgerow, or is damaged ({error})") from error
        if not good or not whole:
            raise InputError(
                f"{file} is {'damaged; use a copy that is whole' if good else 'not one that this hedgerow reads'}"
            )
        return manifest, parts
