"""Who may do what: a file of tokens, each with rights for some models or all.

A line is `TOKEN RIGHTS MODELS`: rights are read, predict, learn and admin, joined by commas; models are names joined by
commas, or * for all. Each right stands for itself, so that a device that predicts cannot read the journal; admin has
all of them. A token may have several lines. Lines that begin with # are comments.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from hedgerow.core.errors import InputError, unknown

RIGHTS = ("read", "predict", "learn", "admin")
SHORTEST = 16  # characters of a token
MAKE_ONE = "python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"


@dataclass(frozen=True)
class Caller:
    """What one caller may do: pairs of a right and a model's name, * for all models."""

    grants: frozenset[tuple[str, str]]

    def may(self, right: str, model: str) -> bool:
        """Whether this right was given for this model (or `*`: for all)."""
        grants = self.grants
        return (
            (right, model) in grants or (right, "*") in grants or ("admin", model) in grants or ("admin", "*") in grants
        )

    def may_any(self, right: str) -> bool:
        """Whether this right was given for at least one model."""
        return any(given in (right, "admin") for given, _ in self.grants)


EVERYBODY = Caller(frozenset({("admin", "*")}))  # where there is no token file: loopback only
NOBODY = Caller(frozenset())


class Tokens:
    """The tokens of a file, by digest."""

    def __init__(self, callers: dict[bytes, Caller]) -> None:
        self._callers = callers

    @classmethod
    def read(cls, path: Path) -> Tokens:
        """The tokens of a file that nobody else can read."""
        try:
            with path.open(encoding="utf-8") as file:
                _check_private(path, os.fstat(file.fileno()))
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the token file {path}: {error}") from error
        grants: dict[bytes, set[tuple[str, str]]] = {}
        for number, line in enumerate(lines, start=1):
            if line.strip() and not line.lstrip().startswith("#"):
                token, given = _parsed(line, f"{path}, line {number}")
                grants.setdefault(_digest(token), set()).update(given)
        if not grants:
            raise InputError(f"the token file {path} has no token; a line is TOKEN RIGHTS MODELS; {MAKE_ONE}")
        return cls({digest: Caller(frozenset(given)) for digest, given in grants.items()})

    def caller(self, authorization: str) -> Caller | None:
        """Whose header this is: `Bearer TOKEN`, or `Basic` with the token as the password (browsers ask for it)."""
        kind, _, value = authorization.partition(" ")
        token: str | None = value.strip()
        if kind.lower() == "basic":
            token = _password(value)
        elif kind.lower() != "bearer":
            return None
        if not token:
            return None
        given, found = _digest(token), None
        for digest, caller in self._callers.items():  # all of them: the time says nothing about which is near
            if hmac.compare_digest(digest, given):
                found = caller
        return found


def _check_private(path: Path, found: os.stat_result) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if os.name == "posix" and mode & 0o077:
        raise InputError(f"the token file {path} has mode {mode:04o}, so others can read it: chmod 600 {path}")


def _parsed(line: str, where: str) -> tuple[str, set[tuple[str, str]]]:
    parts = line.split()
    if len(parts) != 3:
        raise InputError(f"{where}: {len(parts)} words; a line is TOKEN RIGHTS MODELS, e.g. `.. predict,learn *`")
    token, rights, models = parts[0], parts[1].split(","), parts[2].split(",")
    if len(token) < SHORTEST:
        raise InputError(f"{where}: a token of {len(token)} characters can be guessed; {MAKE_ONE}")
    for right in rights:
        if right not in RIGHTS:
            raise InputError(f"{where}: {unknown('right', right, RIGHTS)}")
    return token, {(right, model) for right in rights for model in models if model}


def _password(value: str) -> str | None:
    try:
        return base64.b64decode(value.strip(), validate=True).decode("utf-8").partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
