"""The streams of the comparison: nine tasks of the paper, Amazon reviews, and the watches of the package seglearn.

A stream is labelled source domains, unlabelled rows of the target (30 % of it), and the rest of the target in a given
order, whose labels come one by one after the predictions.

`watch/3` is wearer 3 of the bundled watch data set of seglearn (exercises of the shoulder with a watch on:
three axes of acceleration, three of rotation, 50 samples a second, 7 exercises, 10 wearers). Each wearer is a domain,
one streams, the others are its sources. A series is cut into windows of 100 samples (2 s) that do not overlap; what is
left over at its end is dropped. A window is a row of 30 features: mean, standard deviation, least, largest, and mean
absolute step from sample to sample, of each of the six channels. The windows are shuffled, as the rows of all other
tasks are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow import Domain, split
from hedgerow.core.arrays import dense
from hedgerow.core.preprocess import Preprocess
from hedgerow.experiment.preparation import WARMUP, Prepared, checksum, order_of
from hedgerow.experiment.preparation import prepare as prepare_set
from hedgerow.methods import OWN_STEPS
from hedgerow.paper.tasks import TASKS

WINDOW = 100
REVIEWS = tuple(f"amazon-reviews/{name}" for name in ("books", "kitchen", "dvd", "elec"))
WATCHES = tuple(f"watch/{wearer}" for wearer in range(1, 11))
# in the order they are run: small ones first
DEFAULT = ("dslr", "webcam", "amazon", *REVIEWS[:2], *WATCHES[:3], "caltech", "PIE5", "PIE3", *REVIEWS[2:])
DEFAULT += ("PIE1", "PIE2", "PIE4")
MAPS = ("standard", "ours")


@dataclass(frozen=True)
class Stream:
    """One target with its sources, the labels as codes 0..K-1, the rows of the stream in their order."""

    sources: list[np.ndarray]
    source_codes: list[np.ndarray]
    together: np.ndarray
    warmup: np.ndarray
    rows: np.ndarray
    codes: np.ndarray
    classes: np.ndarray
    checksum: str


def stream_of(task: str, seed: int, trial: int, data_dir: str | None) -> Stream:
    """One split and one order of a task: the same rows in the same order for everybody."""
    prepared = watch(task.split("/")[1], seed) if task in WATCHES else published(task, seed, data_dir)
    order = order_of(trial, len(prepared.stream))
    labels = [np.asarray(source.y) for source in prepared.sources]
    classes = np.unique(np.concatenate(labels))
    streamed = np.asarray(prepared.stream.y)[order]
    unknown = set(streamed.tolist()) - set(classes.tolist())
    if unknown:
        raise ValueError(f"{task}: labels {sorted(unknown)} are in the stream and in no source")
    return Stream(
        [dense(source.X).astype(float) for source in prepared.sources],
        [np.searchsorted(classes, y) for y in labels],
        prepared.together,
        dense(prepared.warmup.X).astype(float),
        np.ascontiguousarray(dense(prepared.stream.X)[order].astype(float)),
        np.searchsorted(classes, streamed),
        classes,
        prepared.checksum,
    )


def published(task: str, seed: int, data_dir: str | None) -> Prepared:
    """A task of the paper, or "data/target" of another set."""
    data, target = (TASKS[task].family, task) if task in TASKS else task.split("/")
    return prepare_set(data, target, seed, data_dir=data_dir)


def watch(wearer: str, seed: int) -> Prepared:
    """The wearers of seglearn's watch data set as domains."""
    from seglearn.datasets import load_watch

    data = load_watch()
    rows: dict[str, list[np.ndarray]] = {}
    labels: dict[str, list[str]] = {}
    for series, exercise, name in zip(data["X"], data["y"], data["subject"], strict=True):
        windows = series[: len(series) // WINDOW * WINDOW].reshape(-1, WINDOW, series.shape[1])
        rows.setdefault(str(name), []).append(features(windows))
        labels.setdefault(str(name), []).extend([data["y_labels"][exercise]] * len(windows))
    domains = {name: Domain(name, np.vstack(parts), labels[name]) for name, parts in rows.items()}
    warmup, stream = split(domains[wearer], WARMUP, seed)
    rng = np.random.default_rng([seed, 7])
    sources = [domain.rows(rng.permutation(len(domain))) for name, domain in domains.items() if name != wearer]
    together = rng.permutation(sum(map(len, sources)))
    return Prepared(sources, together, warmup, stream, checksum(domains))


def features(windows: np.ndarray) -> np.ndarray:
    """(windows, samples, channels) to (windows, 5 channels)."""
    steps = np.abs(np.diff(windows, axis=1)).mean(axis=1)
    parts = (windows.mean(axis=1), windows.std(axis=1), windows.min(axis=1), windows.max(axis=1), steps)
    return np.hstack(parts)


def mapped(stream: Stream, input_map: str, target_only: bool) -> Stream:
    """The stream as a peer sees it. Nothing looks ahead: a row is mapped by what came before it.

    "standard": every feature less its mean, over its deviation, of all source rows (for a peer that knows the target
    alone: of the unlabelled rows). "ours": the input map of our learner, each domain about its own mean.
    """
    if input_map == "ours":
        pre = Preprocess(OWN_STEPS)
        sources, warmup = pre.start(stream.sources, stream.warmup)
        rows = pre.fold(stream.rows, np.ones(len(stream.rows), dtype=bool))
    else:
        known = stream.warmup if target_only else np.vstack(stream.sources)
        mean, sd = known.mean(axis=0), known.std(axis=0)
        sd[sd < 1e-12] = 1
        sources = [(X - mean) / sd for X in stream.sources]
        warmup, rows = (stream.warmup - mean) / sd, (stream.rows - mean) / sd
    return Stream(sources, stream.source_codes, stream.together, warmup, rows, *_rest(stream))


def _rest(stream: Stream) -> tuple[np.ndarray, np.ndarray, str]:
    return stream.codes, stream.classes, stream.checksum
