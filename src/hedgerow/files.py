"""Files that are written whole or not at all, and model files: arrays in safetensors, all else in its JSON header.

Never pickle, so a model file cannot run code. It is believed only as far as it is checked: its digest covers every
byte, the plan is read value by value, and every array's name, shape, type and range follows from the plan before a
learner sees it. Anything else "is damaged".
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np

from hedgerow import __version__
from hedgerow.align import ALIGNERS
from hedgerow.core.arrays import Array
from hedgerow.core.constants import Constants, array_digest
from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.preprocess import parse
from hedgerow.core.registry import Parts, of_json
from hedgerow.core.values import as_labels, labels_from_json, labels_to_json, plain
from hedgerow.coverage import coverages
from hedgerow.findings import Bins
from hedgerow.given import Asking, Compared
from hedgerow.heads import HEADS
from hedgerow.inputs import Inputs, checked_dtype, cost_matrix
from hedgerow.learner import OnlineLearner, learner_of
from hedgerow.methods import NUMBERS, PaperOptions, Reading, Recipe, check_number, named, reading_of
from hedgerow.mix import MIXERS
from hedgerow.series import check_ahead
from hedgerow.tables import TableEncoder, TableOptions

# -- any file ----------------------------------------------------------------------------------------------------------

CHUNK = 1 << 20


def write_whole(
    path: str | os.PathLike[str], data: bytes, error: type[HedgerowError] = InputError
) -> None:
    """Write a file so that everyone sees the old content or the new, never a part, also after a power failure.

    What the system does not let it write is an error of type `error`.

    A symbolic link stays a link: the file it points to is replaced. An existing file keeps its mode and, where the
    system allows it, its owner. Other hard links keep the old content.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "a", b"new"); (Path(folder) / "a").read_bytes()
    b'new'
    """
    target, before = _examined(path)
    with _os_errors_named(path, error), _aside(target) as (temporary, file):
        file.write(data)
        if before is not None:
            _make_alike(file.fileno(), before)
        file.flush()
        os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_folder(target.parent)


def check_writable(path: str | os.PathLike[str], size: int = 0) -> None:
    """Refuse a path where `write_whole` would fail, by trying: a file of `size` bytes is written aside and removed.

    >>> check_writable("no-such-folder/model")
    Traceback (most recent call last):
    hedgerow.core.errors.InputError: cannot write to no-such-folder/model: the folder no-such-folder does not exist
    """
    target, _ = _examined(path)
    with _os_errors_named(path), _aside(target) as (_, file):
        for start in range(0, size, CHUNK):
            file.write(bytes(min(CHUNK, size - start)))
        file.flush()


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two paths lead to one file, links and spelling aside, also where that file does not exist yet.

    >>> same_file("a/../b", "./b"), same_file("a", "b")
    (True, False)
    """
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    first = Path(os.path.realpath(one))
    second = Path(os.path.realpath(other))
    if first.name != second.name or os.path.exists(first) or os.path.exists(second):
        return False
    folders = first.parent, second.parent
    return folders[0] == folders[1] or (
        all(map(os.path.exists, folders)) and os.path.samefile(*folders)
    )


def _examined(path: str | os.PathLike[str]) -> tuple[Path, os.stat_result | None]:
    """The file that a path leads to, and its `stat` if it exists; refused if it cannot be replaced."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise InputError(f"cannot write to {path}: the folder {Path(path).parent} does not exist")
    with _os_errors_named(path):
        try:
            before = os.stat(target)
        except FileNotFoundError:
            return target, None
    if stat.S_ISDIR(before.st_mode):
        raise InputError(f"cannot write to {path}: it is a folder; give the name of a file in it")
    if not stat.S_ISREG(before.st_mode):
        raise InputError(f"cannot write to {path}: it is not a regular file")
    # A mode without any write bit is meant, though the system would not stop its superuser.
    if not before.st_mode & 0o222 or not os.access(target, os.W_OK):
        raise InputError(
            f"cannot write to {path}: the file is read-only; make it writable or choose another name"
        )
    return target, before


@contextmanager
def _aside(target: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file in the folder of the target; it is gone afterwards unless it was moved into place."""
    temporary = target.with_name(f".hedgerow-{uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            yield temporary, file
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _os_errors_named(
    path: str | os.PathLike[str], kind: type[HedgerowError] = InputError
) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise kind(f"cannot write to {path}: {error.strerror or error}") from error


def _make_alike(descriptor: int, before: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        with suppress(PermissionError):  # only the superuser may give a file away
            os.fchown(descriptor, before.st_uid, before.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _sync_folder(folder: Path) -> None:
    """Make the new name durable. Some systems cannot sync a folder; the file itself is safe by then."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a model file; an error names the path."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"no model file at {path}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def read_model(file: str | os.PathLike[str] | BinaryIO) -> tuple[bytes, str]:
    """The bytes of a model file, or of a file that is open, and its name for errors."""
    if isinstance(file, str | os.PathLike):
        return read_file(file), str(file)
    return file.read(), str(getattr(file, "name", "the file"))


# -- model files -------------------------------------------------------------------------------------------------------

SCHEMA = 6
FORMAT = "hedgerow"
CONSTANT = "constants/"
STATE = "state/"
NO_DIGEST = "0" * 64  # stands where the digest goes while it is computed
DIGEST = b'"digest":"'
WRONG = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class StoredModel:
    """What a model file holds: a learner, its classes, and how the estimator that it belongs to was made."""

    learner: OnlineLearner
    classes: Array
    params: dict[str, Any]
    requests: dict[str, dict[str, Any]] | None
    sources: list[str]
    inputs: Inputs
    about: dict[str, dict[str, Any]]
    version: str = __version__

    @property
    def is_regressor(self) -> bool:
        """Whether its targets are numbers."""
        return self.learner.kind == "regression"

    def to_bytes(self, constants: bool = True) -> bytes:
        """The content of a file; without constants only their digests are kept.

        Constants that the state has taken the place of (a prior, once there is something learned) are left out.
        """
        from safetensors.numpy import save

        learner = self.learner
        asking = self.inputs if isinstance(self.inputs, Asking) else None
        inputs = self.inputs if asking is None else asking.inner
        names = inputs.names
        encoder = inputs.encoder
        state = learner.stored()
        header = {
            "format": FORMAT,
            "schema": SCHEMA,
            "version": __version__,
            "learner": learner.kind,
            "plan": learner.plan_to_json(),
            "classes": labels_to_json(self.classes),
            "constants": learner.constants.digests,
            "constants_inside": constants,
            "params": params_to_json(self.params),
            "requests": self.requests,
            "sources": self.sources,
            "features": None if names is None else [str(name) for name in names],
            "n_features": inputs.width,
            "table": None if encoder is None else encoder.to_json(),
            "about": self.about,
            "experts": None if asking is None else asking.to_json(),
        }
        arrays = {STATE + name: np.ascontiguousarray(array) for name, array in state.items()}
        if constants:
            specs = learner.plan.layout().constants
            for name in learner.constants:
                if specs[name].needed or name.replace("prior.", "") not in state:
                    arrays[CONSTANT + name] = learner.constants.for_kernels(name)
        text = json.dumps(header, default=_plain, allow_nan=False)
        data = bytearray(_in_order(save(arrays, metadata={"digest": NO_DIGEST, "hedgerow": text})))
        at = data.index(DIGEST + NO_DIGEST.encode()) + len(DIGEST)
        data[at : at + 64] = hashlib.sha256(data).hexdigest().encode()
        return bytes(data)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        where: str,
        constants: Constants | None = None,
        experts: Mapping[str, Any] | None = None,
    ) -> StoredModel:
        """The inverse of `to_bytes`. `where` names the file in errors; `experts`: the models that no file holds."""
        header, arrays = read_header(data, where)
        version = str(header.get("version", __version__))
        try:
            learner, classes = _learner(header, arrays, constants)
            params = params_from_json(header["params"])
            if params.get("costs") is not None:
                cost_matrix(params["costs"], classes.tolist())
            n = int(header["n_features"])
            sources = _names(header["sources"], learner.n_sources, "sources")
            features = (
                None if header["features"] is None else _names(header["features"], n, "features")
            )
            encoder = None if header["table"] is None else TableEncoder.from_json(header["table"])
            if encoder is not None and (not learner.gaps or encoder.feature_names != features):
                raise ValueError("its table gives other numbers than the learner takes")
            names = None if features is None else np.array(features, dtype=object)
            inputs = Inputs(n, names, encoder=encoder)
            if header.get("experts") is not None:
                inputs = Asking.from_json(header["experts"], inputs)
            said = inputs.width - n
            if said != getattr(learner.plan, "said", 0):
                raise ValueError(f"experts that say {said} numbers of a row")
            about = {
                str(what): {
                    str(name): Bins.of_list(value).to_list() if what == "bins" else float(value)
                    for name, value in values.items()
                }
                for what, values in header.get("about", {}).items()
            }
            if about.get("bins") and list(about["bins"]) != inputs.columns(None)[0]:
                raise ValueError("its bins are of other columns")
            stored = cls(
                learner, classes, params, header["requests"], sources, inputs, about, version
            )
        except _Unusable as error:
            raise InputError(f"{where}: {error}") from error
        except WRONG as error:
            raise unreadable(where, version, error) from error
        if isinstance(inputs, Asking):
            return replace(stored, inputs=inputs.with_models(experts, where))
        if experts and not isinstance(experts, Compared):
            raise InputError(f"{where} has no experts; leave experts= out")
        return stored


def unreadable(where: str, version: str, error: Exception) -> InputError:
    """The error for a file that cannot be read: it was written by a newer version than this one, or it is damaged."""
    written, own = (
        [int(part) for part in re.findall(r"\d+", text)[:3]] for text in (version, __version__)
    )
    if written > own:
        return InputError(
            f"{where} was written by hedgerow {version}, and this is {__version__}, which cannot read it ({error}): "
            "upgrade hedgerow"
        )
    if isinstance(error, InputError):
        return InputError(
            f"{where} is damaged, or not a model that this hedgerow can read: {error}"
        )
    return InputError(f"{where} is damaged ({type(error).__name__}: {error})")


class _Unusable(InputError):
    """Nothing is wrong with the file itself."""


def _in_order(data: bytes) -> bytes:
    """With the metadata in one order: safetensors writes them in any, and the same model would be other bytes."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def read_header(data: bytes, where: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays of a model file, if its digest is right."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not data:
        raise InputError(
            f"{where} is empty (0 bytes), so it is no model file; use a copy that is whole"
        )
    try:
        length = int.from_bytes(data[:8], "little")
        outer = json.loads(data[8 : 8 + length]) if length <= len(data) else {}
        metadata = outer.get("__metadata__") or {}
        header = json.loads(metadata.get("hedgerow", "null"), parse_constant=_not_a_number)
        arrays = load(data)
    except (SafetensorError, *WRONG) as error:
        raise InputError(f"{where} is not a model file, or is damaged ({error})") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{where} is a safetensors file, but not one that hedgerow wrote")
    schema = header.get("schema")
    if schema != SCHEMA:
        remedy = "upgrade" if isinstance(schema, int) and schema > SCHEMA else "fit the model again"
        raise InputError(f"{where} has schema {schema!r}, this hedgerow reads {SCHEMA}: {remedy}")
    digest = str(metadata.get("digest"))
    at = data.find(DIGEST + digest.encode()) + len(DIGEST)
    undigested = data[:at] + NO_DIGEST.encode() + data[at + 64 :]
    if at < len(DIGEST) or len(digest) != 64 or hashlib.sha256(undigested).hexdigest() != digest:
        raise InputError(
            f"{where} is damaged: its content is not what was written; use a copy that is whole"
        )
    return header, arrays


def _not_a_number(text: str) -> None:
    raise ValueError(f"{text} in its header")


def _names(names: Any, count: int, what: str) -> list[str]:
    if (
        not isinstance(names, list)
        or len(names) != count
        or not all(isinstance(name, str) for name in names)
    ):
        raise ValueError(f"{names!r} for {count} {what}")
    return names


def _learner(
    header: dict[str, Any], arrays: dict[str, Array], constants: Constants | None
) -> tuple[OnlineLearner, Array]:
    kind = learner_of(str(header["learner"]))
    plan = kind.plan_from_json(header["plan"])
    classes = labels_from_json(header["classes"])
    state = {name[len(STATE) :]: array for name, array in arrays.items() if name.startswith(STATE)}
    inside = {
        name[len(CONSTANT) :]: array for name, array in arrays.items() if name.startswith(CONSTANT)
    }
    if len(state) + len(inside) != len(arrays):
        raise InputError("it has arrays that are neither constants nor state")
    fixed = _constants(header, inside, constants)
    lags = len(getattr(plan, "lags", ()))  # of a series, behind the columns of a row
    sizes = {"K": len(classes), "m": int(header["n_features"]) + lags}
    plan.layout().check({name: fixed.for_kernels(name) for name in fixed}, state, sizes)
    return kind(plan, fixed, {name: np.array(array) for name, array in state.items()}), classes


def _constants(
    header: dict[str, Any], inside: dict[str, Array], shared: Constants | None
) -> Constants:
    """Those of the file, or those of another model; they must be the ones that the model was fitted with."""
    expected = dict(header["constants"])
    if not header["constants_inside"]:
        if shared is not None and shared.digests == expected:
            return shared
        digest = Constants({}, expected).digest[:12]
        if shared is None:
            raise _Unusable(
                "it has a state and no constants; pass constants=, those of the model it was fitted with "
                f"(digest {digest}..)"
            )
        raise _Unusable(
            f"it belongs to other constants (digest {digest}.., given {shared.digest[:12]}..)"
        )
    if shared is not None and shared.digests == expected and shared.complete:
        return shared  # one copy in memory for all models
    left_out = {name: digest for name, digest in expected.items() if name not in inside}
    for name, array in inside.items():
        if expected.get(name) != array_digest(array):
            raise InputError(f"the constant {name!r} is not the one it was fitted with")
    return Constants({name: np.array(array) for name, array in inside.items()}, left_out)


def _plain(value: Any) -> Any:
    """What JSON cannot write: a NumPy number becomes a plain one, an array a list."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise InputError(
        f"{value!r} of type {type(value).__name__} cannot be saved; use labels and options that are text, numbers or "
        "tuples of these"
    )


# -- an estimator's parameters: parts and readings by name, or by name and options -------------------------------------

NUMBER_PARAMS = {"ahead", "coverage", "random_state", "table"}  # of a regressor
PARTS: dict[str, Parts[Any]] = {"aligner": ALIGNERS, "head": HEADS, "mixer": MIXERS}
# how a value that is no name is written, and read again
WRITERS: dict[str, Callable[[Any], Any]] = {
    **{name: parts.to_json for name, parts in PARTS.items()},
    "method": lambda recipe: _translated(vars(recipe), WRITERS),
    "reading": lambda reading: asdict(reading) | {"preprocess": list(reading.preprocess)},
    "classes": lambda classes: labels_to_json(as_labels(list(classes), "classes")),
    "options": lambda options: _translated(options.get_params(), WRITERS),
    "costs": lambda costs: (
        {"of": [[plain(label), cost] for label, cost in costs.items()]}
        if isinstance(costs, Mapping)
        else np.asarray(costs, float).tolist()
    ),
    "table": lambda table: asdict(TableOptions.of(table)),
}
READERS: dict[str, Callable[[Any], Any]] = {
    **{name: parts.from_json for name, parts in PARTS.items()},
    "method": lambda data: of_json(Recipe, _translated(data, READERS)),
    "reading": lambda data: of_json(Reading, data),
    "classes": lambda data: labels_from_json(data).tolist(),
    "options": lambda data: PaperOptions(**_translated(data, READERS)),
    "preprocess": tuple,
    "costs": lambda data: dict(data["of"]) if isinstance(data, dict) else data,
}


def params_to_json(params: Mapping[str, Any]) -> dict[str, Any]:
    """Names stay names, objects become names and options."""
    _check_params(params)
    return _translated(params, WRITERS)


def params_from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `params_to_json`."""
    params = _translated(data, READERS)
    _check_params(params)
    return params


def _translated(
    params: Mapping[str, Any], by: Mapping[str, Callable[[Any], Any]]
) -> dict[str, Any]:
    """With every value translated that is neither a name nor None."""
    plain = {
        name: value is None or isinstance(value, str) or name not in by
        for name, value in params.items()
    }
    return {name: value if plain[name] else by[name](value) for name, value in params.items()}


def _check_params(params: Mapping[str, Any]) -> None:
    """Refuse what no parameter can be, whatever the method: it would fail only when it is used."""
    TableOptions.of(params["table"])
    if params.keys() == NUMBER_PARAMS:
        check_number("random_state", params["random_state"])
        check_ahead(params["ahead"])
        return
    params = named(params)
    for name in NUMBERS:
        check_number(name, params[name])
    for name in ("method", "reading", "dtype", "preprocess", *PARTS):
        value = params[name]
        if isinstance(value, bool | int | float | list | dict):
            raise InputError(f"{name}={value!r}: cannot be of type {type(value).__name__}")
    if not isinstance(params["method"], str | Recipe):
        raise InputError(f"method={params['method']!r}: give the name of a method, or a Recipe")
    checked_dtype(params)
    reading_of(params["reading"])
    parse(params["preprocess"])
    if params.get("coverage") is not None:
        coverages(params["coverage"])
