"""A domain of a data set as the target, all others as its sources: one split, and the orders of its stream."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array, dense
from hedgerow.core.domains import Domain, split
from hedgerow.core.errors import unknown
from hedgerow.data import load

WARMUP = 0.3  # share of the target that comes unlabelled and in advance


@dataclass(frozen=True)
class Prepared:
    """One split of one task. `together` is the order in which a pooled classifier sees the rows of all sources."""

    sources: list[Domain]
    together: Array
    warmup: Domain
    stream: Domain
    checksum: str


def prepare(
    data: str, target: str, split_index: int, *, published_split: bool = False, data_dir: str | None = None
) -> Prepared:
    """Sources in the order their classifiers see them, the unlabelled target rows, and the stream.

    The published split is taken where it is asked for and the files have one (Office+Caltech); all others are drawn
    with the seed `split_index`. Rows of a source keep the published order, or are shuffled once where there is none,
    because the files are sorted by label; for the pooled classifiers the sources are mixed at random.
    """
    domains = load(data, data_dir=data_dir)
    if target not in domains:
        raise unknown(f"domain of {data}", target, domains)
    streamed = domains[target]
    rng = np.random.default_rng([split_index, 7])
    fixed = published_split and streamed.order is not None
    warmup, stream = split(streamed, WARMUP, None if fixed else split_index)
    sources = [
        domain.ordered() if domain.order is not None else domain.rows(rng.permutation(len(domain)))
        for name, domain in domains.items()
        if name != target
    ]
    return Prepared(sources, _mixed([len(s) for s in sources], rng), warmup, stream, checksum(domains))


def _mixed(sizes: list[int], rng: np.random.Generator) -> Array:
    """A random order of all rows in which the rows of each source keep their own order."""
    owners = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    together = np.empty(len(owners), dtype=np.int64)
    for i, start in enumerate(np.cumsum([0, *sizes[:-1]])):
        together[owners == i] = start + np.arange(sizes[i])
    return together


def checksum(domains: Mapping[str, Domain]) -> str:
    """A short fingerprint of the data as loaded, to go with every result."""
    digest = hashlib.sha256()
    for name in sorted(domains):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(dense(domains[name].X)).tobytes())
    return digest.hexdigest()[:16]


def order_of(trial: int, n: int) -> Array:
    """The order of the stream in a trial: the same for every method."""
    return np.random.default_rng([trial, 11]).permutation(n)
