"""Something to look at: the embedded digits as a stream that never ends, for `hedgerow serve --demo`.

Digits of the domain "shifted" come one by one, about twenty a second. Each is predicted; its label follows some rows
later, and a few labels never come. After a while digits come that nobody knew (those of "thin", each time turned or
mirrored in another way): the stream drifts, mistakes rise, and an alarm says so. Then labels stop for a while. Then all
begins again in a new order.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain
from hedgerow.core.labels import plain
from hedgerow.data import load, split
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live import LiveModel, Settings

if TYPE_CHECKING:
    from hedgerow.service.models import Entry, Models
    from hedgerow.service.state import Stop

NAME = "digits"
TARGET, DRIFT = "shifted", "thin"  # where the stream comes from, and where it drifts to; the other domains are sources
SECONDS = 0.05  # between two rows
DELAYS = (4, 40)  # rows until a label comes: between these
NEVER = 0.03  # share of labels that never come
SIDE = 8  # pixels
NOISE = 1.0  # added to every pixel (of 0 to 16), so that a digit that comes again is not the very same row
PATIENCE = 120.0  # seconds until a label that did not come is given up


class Phase(NamedTuple):
    """A part of the stream: how many rows, of which domain, and whether their labels come."""

    rows: int
    domain: str
    labelled: bool = True


CYCLE = (Phase(450, TARGET), Phase(250, DRIFT), Phase(400, TARGET), Phase(300, TARGET, labelled=False))
VIEWS = 8  # ways to turn and mirror a digit


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


def rows(seed: int = 0, cycle: tuple[Phase, ...] = CYCLE) -> Iterator[Row]:
    """The stream, for ever.

    >>> row = next(rows(seed=1))
    >>> row.x.shape, 0 <= row.y <= 9
    ((64,), True)
    """
    rng = np.random.default_rng(seed)
    domains = load("digits")
    _, stream = split(domains[TARGET], warmup=0.3, seed=0)
    places = {TARGET: stream, DRIFT: domains[DRIFT]}
    orders = {name: _orders(domain, rng) for name, domain in places.items()}
    for view in itertools.cycle(range(VIEWS)):
        for phase in cycle:
            domain, order = places[phase.domain], orders[phase.domain]
            for i in itertools.islice(order, phase.rows):
                x = domain.X[i] if phase.domain == TARGET else turned(domain.X[i], view)
                x = np.clip(x + rng.normal(scale=NOISE, size=x.size), 0, 16)
                comes = phase.labelled and rng.random() >= NEVER
                assert domain.y is not None
                yield Row(x, plain(domain.y[i]), int(rng.integers(*DELAYS)) if comes else None)


def turned(x: Array, view: int) -> Array:
    """A digit seen in another way: turned by `view` quarters, and mirrored from the fifth on."""
    image = x.reshape(SIDE, SIDE)
    return np.rot90(image if view < 4 else image[:, ::-1], view % 4).ravel()


def _orders(domain: Domain, rng: np.random.Generator) -> Iterator[int]:
    """The rows of a domain, over and over, each time in a new order."""
    while True:
        yield from rng.permutation(len(domain)).tolist()


def prepare(models: Path) -> None:
    """Make the live model in the folder of models, unless it is there: then the demonstration goes on with it."""
    if not (models / NAME).exists():
        LiveModel.create(models / NAME, model(), Settings(label_timeout=PATIENCE)).close()


async def stream(models: Models, stop: Stop, seconds: float = SECONDS) -> None:
    """Send the stream to the model, until the service ends. `prepare` comes first, before the models are opened."""
    entry = models[NAME]
    while entry.state == "opening":
        if await stop.within(0.1):
            return
    begun = entry.model.stats()["events"]
    due: list[tuple[int, str, Any]] = []  # labels on their way: at which row they come, of which event
    source = rows(seed=begun)
    at = begun
    while not await stop.within(seconds):
        row = await asyncio.to_thread(next, source)
        answer = await models.call(entry, lambda live, x=row.x: live.aio.predict(x))
        if row.delay is not None:
            heapq.heappush(due, (at + row.delay, answer.id, row.y))
        while due and due[0][0] <= at:
            _, id, y = heapq.heappop(due)
            await _label(models, entry, id, y)
        at += 1


async def _label(models: Models, entry: Entry, id: str, y: Any) -> None:
    await models.call(entry, lambda live: live.aio.label(id, y))
