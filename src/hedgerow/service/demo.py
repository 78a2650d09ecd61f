"""`hedgerow serve --demo`: the embedded digits stream into a model of their own, so that there is something to see."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import numpy as np

from hedgerow.core.errors import HedgerowError
from hedgerow.service.models import Models
from hedgerow.service.problems import Problem
from hedgerow.service.state import Stop

NAME = "digits-demo"
TARGET = "shifted"
PAUSE = 0.1  # seconds between two instances
LATE = 5  # instances by which a label follows its prediction
MODEL = "demo.safetensors"


class Demo:
    """One stream: predictions, and their labels a little later; every 40th label never comes."""

    def __init__(self, models: Models, stop: Stop) -> None:
        self._models, self._stop = models, stop
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the model is fitted first if it is not there yet."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End with the service."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        if NAME not in [entry.name for entry in self._models]:
            entry = self._models.reserve(NAME)
            file = self._models.work.path / MODEL
            await asyncio.to_thread(_fit, file)
            await self._models.install(entry, file)
        X, y = await asyncio.to_thread(_rows)
        late: deque[tuple[str, Any]] = deque()
        while not await self._stop.within(PAUSE):
            entry = self._models[NAME]
            live = entry.live
            if live is None:
                continue
            try:
                number = live.stats()["events"]
                row = number % len(X)
                answer = await live.aio.predict(X[row])
                if number % 40:
                    late.append((answer.id, y[row]))
                if len(late) > LATE:
                    await live.aio.label(*late.popleft())
            except (HedgerowError, Problem):
                continue


def _fit(file: Any) -> None:
    from hedgerow import OnlineTransferClassifier, load

    domains = load("digits")
    sources = [domain for name, domain in domains.items() if name != TARGET]
    OnlineTransferClassifier().fit_domains(sources).save(file)


def _rows() -> tuple[Any, list[Any]]:
    from hedgerow import load

    target = load("digits")[TARGET]
    order = np.random.default_rng(0).permutation(len(target))
    return target.X[order], np.asarray(target.y)[order].tolist()
