"""Something to look at: the embedded digits as a stream that never ends, for `hedgerow serve --demo`.

Digits of the domain "shifted" come one by one, about twenty a second. Each is predicted; its label follows some rows
later, and a few labels never come. After a while digits come that nobody knew (those of "thin", turned in another way
each time): the stream drifts, mistakes rise, and an alarm says so. Then labels stop for a while. Then all begins again
in a new order.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import split
from hedgerow.core.errors import HedgerowError
from hedgerow.core.values import plain
from hedgerow.data import load
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live import Settings
from hedgerow.service.models import Models, happens, logger
from hedgerow.service.schemas import Problem

NAME = "digits"
TARGET = (
    "shifted"  # where the stream comes from, and where it drifts to; the other domains are sources
)
DRIFT = "thin"
SECONDS = 0.05  # between two rows
DELAYS = (2, 20)  # rows until a label comes: between these
NEVER = 0.03  # share of labels that never come
SIDE = 8  # pixels
NOISE = 1.0  # added to every pixel (of 0 to 16), so that a digit that comes again is not the very same row
PATIENCE = 120.0  # seconds until a label that did not come is given up


CYCLE = (  # rows, of which domain, and whether their labels come
    (450, TARGET, True),
    (250, DRIFT, True),
    (400, TARGET, True),
    (300, TARGET, False),
)


class Row(NamedTuple):
    """One row of the stream: features, label, and after how many further rows the label comes (None: never)."""

    x: Array
    y: Any
    delay: int | None


def model() -> OnlineTransferClassifier:
    """The model that the demonstration starts with: fitted on three domains and a little of the new one, unlabelled."""
    domains = load("digits")
    warmup, _ = split(domains[TARGET], warmup=0.3, seed=0)
    sources = [domain for name, domain in domains.items() if name not in (TARGET, DRIFT)]
    return OnlineTransferClassifier().fit_domains(sources, warmup)


def rows(seed: int = 0) -> Iterator[Row]:
    """The stream, for ever: the digits of `DRIFT` are seen in another way each time.

    >>> row = next(rows(seed=1))
    >>> row.x.shape, 0 <= row.y <= 9
    ((64,), True)
    """
    rng = np.random.default_rng(seed)
    domains = load("digits")
    _, stream = split(domains[TARGET], warmup=0.3, seed=0)
    for turns in itertools.count():
        for count, name, labelled in CYCLE:
            domain = stream if name == TARGET else domains[name]
            assert domain.y is not None
            for i in rng.choice(len(domain), count, replace=count > len(domain)):
                image = domain.X[i].reshape(SIDE, SIDE)
                image = np.rot90(image, turns if name == DRIFT else 0)
                x = np.clip(image.ravel() + rng.normal(scale=NOISE, size=image.size), 0, 16)
                comes = labelled and rng.random() >= NEVER
                yield Row(x, plain(domain.y[i]), int(rng.integers(*DELAYS)) if comes else None)


async def stream_digits(models: Models, seconds: float = SECONDS) -> None:
    """The stream into a model of its own, fitted first if it is not there yet, until the service ends."""
    try:
        await _stream(models, seconds)
    except Exception:  # an end that nobody asked for is not kept quiet
        logger.exception("the demonstration has ended")


async def _stream(models: Models, seconds: float) -> None:
    if NAME not in [entry.name for entry in models]:
        entry = models.reserve(NAME)
        file = models.scratch(NAME)
        await asyncio.to_thread(lambda: model().save(file))
        await models.install(entry, file, Settings(label_timeout=PATIENCE))
    entry = models[NAME]
    while entry.state == "opening":
        if await happens(models.stopping, seconds):
            return
    at = entry.model.stats()[
        "events"
    ]  # a demonstration that goes on does not begin with the same rows again
    source = rows(seed=at)
    clock = asyncio.get_running_loop().time
    waiting: list[
        tuple[int, str, Any]
    ] = []  # labels on their way: at which row they come, of which event
    due = clock()
    while not await happens(models.stopping, max(0.0, due - clock())):
        due = max(due + seconds, clock())  # what was missed is not made up for
        row = next(source)
        try:
            live = entry.model.aio
            answer = await live.predict(row.x)
            if row.delay is not None:
                heapq.heappush(waiting, (at + row.delay, answer.id, row.y))
            while waiting and waiting[0][0] <= at:
                _, id, y = waiting[0]
                await live.label(id, y)
                heapq.heappop(waiting)
        except (HedgerowError, Problem):  # too much to do at this moment: the next row comes anyway
            continue
        at += 1
