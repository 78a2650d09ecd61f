"""Model files that are damaged or made up: is any accepted that should not be, does any crash the process?

"mutated" files have some bytes changed: every one must be refused by an InputError that names the file. "crafted" files
have a right digest over a wrong content: each is refused likewise, or gives a model that predicts and learns without a
crash and without an exception that is not hedgerow's own. Files are tried in processes of their own, a batch in each.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

TOO_LONG = 60  # seconds for one file: a loop without end is a crash
MEMORY = 8 << 30
Arrays = dict[str, np.ndarray]
Edit = tuple[str, Callable[[], bytes]]  # what was done, and the file


# -- models to start from -----------------------------------------------------------------------------------------


def models() -> dict[str, Callable[[], Any]]:
    """Small models in the middle of a stream, by name; a class was met late."""
    from hedgerow.align import JDA
    from hedgerow.methods import reading_of

    def of(method: str, learned: int, dtype: str = "float64", **options: Any) -> Callable[[], Any]:
        return lambda: _model(method, learned, dtype, options)

    often = reading_of("general", refresh_every=10)
    return {
        "hedgerow": of("hedgerow", 33),
        "oddm": of("oddm", 33, dim=4, reading=often),
        "hedgerow-linear": of("hedgerow-linear", 20),
        "hedgerow-fresh": of("hedgerow", 0, rank=4),
        "hedgerow-settled": of("hedgerow", 60),
        "fixed": of("oddm-fixed", 20, aligner=JDA(dim=3)),
        "arow": of("oddm", 20, head="arow", dim=3, reading=often),
        "printed": of("oddm", 25, dim=3, reading=reading_of("paper", refresh_every=5)),
        "log-loss": of("homotlms", 20, mixer="log-loss"),
        "loss": of("homotl-1", 20),
        "float32": of("oddm", 25, "float32", dim=3, reading=often),
        "classes": of(
            "homotl-2", 20, classes=["c0", "c1", "c2", "c3", "c4"], max_classes=9, horizon=100
        ),
        "pa": of("pa", 20, preprocess=()),
    }


def _task(dtype: str) -> tuple[list[Any], Any, np.ndarray, np.ndarray]:
    from hedgerow import Domain

    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(4, 6))

    def domain(size: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
        codes = rng.integers(0, classes, size=size)
        X = rng.normal(size=(size, 6)) + centres[codes] + rng.normal(size=6)
        return X.astype(dtype), np.array([f"c{k}" for k in codes])

    names = tuple("uvwxyz")
    sources = [Domain(f"s{i}", *domain(20, 3), feature_names=names) for i in range(2)]
    return sources, Domain("t", domain(12, 3)[0], feature_names=names), *domain(140, 4)


def _model(method: str, learned: int, dtype: str, options: dict[str, Any]) -> Any:
    from hedgerow import OnlineTransferClassifier
    from hedgerow.estimator import arguments_of

    sources, warmup, X, y = _task(dtype)
    clf = OnlineTransferClassifier(**arguments_of(method, options)).fit_domains(sources, warmup)
    for x, label in zip(X[:learned], y[:learned], strict=True):
        clf.learn_one(x, label)
    return clf


# -- some bytes changed -------------------------------------------------------------------------------------------


def mutated(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """A file with some bytes changed, cut off or added; never the file itself."""
    while True:
        out = bytearray(data)
        body = 8 + int.from_bytes(data[:8], "little")
        kind = str(
            rng.choice(
                [
                    "flip in the header",
                    "flip in the body",
                    "cut",
                    "longer",
                    "swapped",
                    "overwritten",
                ]
            )
        )
        if kind.startswith("flip"):
            at = rng.integers(0, body) if "header" in kind else rng.integers(body, len(data))
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == "cut":
            del out[int(rng.integers(len(data))) :]
        elif kind == "longer":
            out += rng.bytes(int(rng.integers(1, 64)))
        elif kind == "swapped":
            n = int(rng.choice([1, 8, 64]))
            a, b = (int(i) for i in rng.integers(body, len(data) - n, size=2))
            out[a : a + n], out[b : b + n] = data[b : b + n], data[a : a + n]
        else:
            n = int(rng.integers(1, 32))
            at = int(rng.integers(len(data) - n))
            out[at : at + n] = rng.bytes(n) if rng.random() < 0.5 else bytes(n)
        if bytes(out) != data:
            return kind, bytes(out)


# -- another content, signed --------------------------------------------------------------------------------------


def opened(data: bytes) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a file."""
    from safetensors.numpy import load

    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    return json.loads(metadata["hedgerow"]), {
        name: np.array(array) for name, array in load(data).items()
    }


def signed(header: dict[str, Any], arrays: Arrays) -> bytes:
    """A file of this content with right digests: of the constants, and of all."""
    from safetensors.numpy import save

    from hedgerow.core.constants import array_digest
    from hedgerow.files import CONSTANT, DIGEST, NO_DIGEST

    if isinstance(header.get("constants"), dict):
        own = {
            name[len(CONSTANT) :]: array_digest(a)
            for name, a in arrays.items()
            if name.startswith(CONSTANT)
        }
        header = header | {"constants": header["constants"] | own}
    kept = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    data = bytearray(save(kept, metadata={"digest": NO_DIGEST, "hedgerow": json.dumps(header)}))
    at = data.index(DIGEST + NO_DIGEST.encode()) + len(DIGEST)
    data[at : at + 64] = hashlib.sha256(data).hexdigest().encode()
    return bytes(data)


def crafted(data: bytes) -> Iterator[Edit]:
    """Every array and every value of the header, wrong in every way that we could think of."""
    header, arrays = opened(data)
    yield from _of_arrays(header, arrays)
    for path, value in _places(header):
        for what, wrong in _wrong_values(value):
            yield f"header {'.'.join(map(str, path))}: {what}", _edited(header, arrays, path, wrong)
    for name in ("state/extra", "constants/extra", "extra"):
        yield (
            f"one more array {name}",
            lambda name=name: signed(header, arrays | {name: np.zeros(3)}),
        )
    yield from _of_sizes(header, arrays)


def _of_arrays(header: dict[str, Any], arrays: Arrays) -> Iterator[Edit]:
    for name, array in arrays.items():
        rest = {other: kept for other, kept in arrays.items() if other != name}
        yield f"{name} missing", lambda rest=rest: signed(header, rest)
        for what, wrong in _wrong_arrays(array):
            yield (
                f"{name} {what}",
                lambda rest=rest, name=name, wrong=wrong: signed(header, rest | {name: wrong}),
            )


def _wrong_arrays(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    for axis in range(array.ndim):
        for n in {n for n in (0, 1, array.shape[axis] - 1) if 0 <= n < array.shape[axis]}:
            yield f"cut to {n} along {axis}", np.take(array, range(n), axis=axis)
        yield (
            f"longer along {axis}",
            np.concatenate([array, np.take(array, [0], axis=axis)], axis=axis)
            if (array.shape[axis])
            else np.zeros(
                [1 if i == axis else n for i, n in enumerate(array.shape)], dtype=array.dtype
            ),
        )
        yield f"much longer along {axis}", np.repeat(array, 60, axis=axis)
    if array.ndim > 1:
        yield "transposed", array.T
        yield "flat", array.ravel()
    yield "one dimension more", array[None]
    for dtype in ("float64", "float32", "float16", "int64", "int32", "uint8", "bool"):
        if array.dtype != dtype:
            with np.errstate(all="ignore"):
                yield f"of type {dtype}", array.astype(dtype)
    for value in _extremes(array.dtype):
        for where in ("one", "all"):
            if array.size:
                wrong = array.copy()
                wrong.flat[0 if where == "one" else slice(None)] = value
                yield f"{where} = {value}", wrong
    if array.size > 1:
        yield "shuffled", np.random.default_rng(0).permutation(array.ravel()).reshape(array.shape)
        yield "negated", -array if array.dtype != bool else ~array
        if array.dtype.kind == "f":
            yield "a million times", array * 1e6


def _extremes(dtype: np.dtype[Any]) -> tuple[float, ...]:
    if dtype == np.int16:
        return (-1, 0, 1, 3, 2**15 - 1, -(2**15))
    if dtype.kind == "i":
        return (-1, 0, 1, 3, 2**31, 2**62, 2**63 - 1, -(2**63), -(10**6))
    if dtype == np.float32:
        return (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e-40, 3e38, -3e38, 1e15)
    return (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e-310, 1e300, -1e300, 1.7e308, 1e15, 0.5)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value inside of plain lists and dicts, containers too, by its path."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for name, part in value.items():
            if path != ("constants",):  # digests
                yield from _places(part, (*path, name))
    elif isinstance(value, list):
        for i, part in enumerate(value[:8]):
            yield from _places(part, (*path, i))


MISSING = object()


def _wrong_values(value: Any) -> Iterator[tuple[str, Any]]:
    every: list[Any] = [
        MISSING, None, True, False, -1, 0, 1, 2, 7, 2**31, 2**63, 10**30, 0.5, -0.5, 1e-300, 1e308, np.nan, np.inf,
        "", "x", "hedge", [], [[]], [1], ["a", "a"], {}, {"a": 1},
    ]  # fmt: skip
    if isinstance(value, list) and value:
        every += [value[:-1], [*value, value[-1]], value[::-1], value * 2]
    if isinstance(value, dict) and value:
        first = next(iter(value))
        every += [
            {name: part for name, part in value.items() if name != first},
            value | {"more": 1},
        ]
    if isinstance(value, str) and len(value) < 64:
        every += [value + "+", value * 2]
        every += [
            "zscore",
            "scale",
            "landmarks+A",
            "H",
            "A",
            "pinv",
            "skip",
            "arow",
            "log-loss",
            "loss",
            "single",
        ]
    if isinstance(value, int | float):
        every += [value + 1, -value, value * 1000]
    for wrong in every:
        if wrong is MISSING or wrong != value or type(wrong) is not type(value):
            yield "left out" if wrong is MISSING else repr(wrong)[:40], wrong


def _edited(
    header: dict[str, Any], arrays: Arrays, path: tuple[Any, ...], wrong: Any
) -> Callable[[], bytes]:
    def made() -> bytes:
        out = json.loads(json.dumps(header))
        inner = out
        for key in path[:-1]:
            inner = inner[key]
        if wrong is MISSING:
            del inner[path[-1]]
        else:
            inner[path[-1]] = wrong
        return signed(out, arrays)

    return made


def _of_sizes(header: dict[str, Any], arrays: Arrays) -> Iterator[Edit]:
    """One size wrong in all arrays at once, so that each agrees with the others."""
    sizes = sorted({n for array in arrays.values() for n in array.shape})
    for size in sizes:
        for new in {0, 1, size - 1, size + 1} - {size, -1}:
            resized = {name: _resized(array, size, new) for name, array in arrays.items()}
            for more in (
                {},
                {"n_features": new},
                {"classes": {"dtype": "<i8", "values": list(range(new))}},
            ):
                yield (
                    f"every {size} is {new}, {', '.join(more) or 'header as it was'}",
                    lambda resized=resized, more=more: signed(header | more, resized),
                )


def _resized(array: np.ndarray, size: int, new: int) -> np.ndarray:
    for axis, n in enumerate(array.shape):
        if n == size:
            kept = np.take(array, range(min(n, new)), axis=axis)
            shape = [
                new - len(range(min(n, new))) if i == axis else k for i, k in enumerate(kept.shape)
            ]
            array = np.concatenate([kept, np.ones(shape, dtype=array.dtype)], axis=axis)
    return array


# -- what becomes of a file ---------------------------------------------------------------------------------------

NAME = "the-file-of-this-test"


def tried(data: bytes, works_is_fine: bool) -> str:
    """ "refused", "works", or what is wrong."""
    from sklearn.exceptions import NotFittedError

    from hedgerow import OnlineTransferClassifier
    from hedgerow.core.errors import HedgerowError, InputError

    try:
        clf = OnlineTransferClassifier.from_bytes(data, name=NAME)
    except InputError as error:
        return "refused" if NAME in str(error) else f"the error does not name the file: {error}"
    except BaseException as error:
        return f"{type(error).__name__} on loading: {error}"
    if not works_is_fine:
        return "accepted"
    try:
        used(clf)
    except (HedgerowError, NotFittedError):
        return "works"
    except BaseException as error:
        return f"{type(error).__name__} in use: {error}"
    return "works"


def used(clf: Any) -> None:
    """Predict and learn 60 rows, by rows and in blocks, with a new class; read everything; save."""
    _, _, X, y = _task(str(clf.learner_.dtype))
    X = X[60:]
    y = y[60:]
    if X.shape[1] != clf.n_features_in_:
        X = np.resize(X, (len(X), max(0, min(clf.n_features_in_, 1000))))
    if clf.classes_.dtype.kind != "U" and len(clf.classes_):
        y = np.resize(clf.classes_, len(y))
    for x, label in zip(X[:25], y[:25], strict=True):
        clf.predict_proba_one(x)
        clf.learn_one(x, label)
    clf.explain_one(X[0])
    clf.predict_proba(X[:5])
    clf.predict_then_learn(X[25:50], y[25:50])
    clf.partial_fit(X[50:56], y[50:56], sample_weight=np.linspace(0.5, 2, 6))
    clf.learn_one(X[56], "new" if y.dtype.kind == "U" else 1234567)
    clf.predict_then_learn(X[56:60], y[56:60])
    _ = (
        clf.weights_,
        clf.bound_,
        clf.guarantee_,
        clf.discrepancy_,
        clf.mistakes_,
        clf.hedge_loss_,
        clf.get_params(),
    )
    type(clf).from_bytes(clf.to_bytes())


def edits(kind: str, model: str, seed: int) -> Iterator[Edit]:
    """The files of one kind from one model, in the order of their numbers."""
    data = models()[model]().to_bytes()
    if kind == "crafted":
        yield from crafted(data)
        return
    rng = np.random.default_rng(seed)
    while True:
        what, changed = mutated(data, rng)
        yield what, lambda changed=changed: changed


def child(kind: str, model: str, seed: int, first: int, last: int, step: int) -> None:
    """Files first, first + step, .. before last; a line before each and a line after."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for i, (what, made) in enumerate(edits(kind, model, seed)):
        if i >= last:
            return
        if i < first or (i - first) % step:
            continue
        print(f"{i}\t{what}", flush=True)
        signal.alarm(TOO_LONG)
        result = tried(made(), kind == "crafted")
        signal.alarm(0)
        print("\t" + result.replace("\n", " ")[:300], flush=True)


def run(
    kind: str, model: str, first: int = 0, last: int = 10**9, step: int = 1, seed: int = 0
) -> dict[str, Any]:
    """All of them in processes of their own, started anew behind a crash: counts, and what is wrong."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    while first < last:
        command = [sys.executable, __file__, kind, model, *map(str, (seed, first, last, step))]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        for begun, result in zip(lines[::2], lines[1::2], strict=False):
            counts[result.strip() if result.strip() in ("refused", "works") else "wrong"] += 1
            if result.strip() not in ("refused", "works"):
                wrong.append(f"{model} {begun}: {result.strip()}")
        if not done.returncode:
            break
        if len(lines) % 2 == 0:
            raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
        counts["crashes"] += 1
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else done.stderr[-500:]
        wrong.append(f"{model} {lines[-1]}: crash, {how}")
        first = int(lines[-1].split("\t")[0]) + step
    return {"model": model, "counts": counts, "wrong": wrong}


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
