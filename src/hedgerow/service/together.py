"""Requests of one instance or one label that wait at the same time are worked on together.

A block of rows costs a model a fraction of what its rows cost one by one. While the writer is busy, what comes in is
collected; then all of its labels are learned and all of its instances predicted, in one transaction. Nobody among them
had an answer yet, so every order is one in which they could have come.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.live import Answer, Labelled, LiveModel

FEW = 4  # rows that are faster one by one than as a block

Waiting = list[tuple[Any, asyncio.Future[Any]]]


class Together:
    """The collector of one model, for the event loop it is used in."""

    def __init__(self, live: LiveModel) -> None:
        self._live = live
        self._asked: Waiting = []  # (row, id or None)
        self._given: Waiting = []  # (id, label)
        self._work: asyncio.Task[None] | None = None

    async def predict(self, x: Array, id: str | None) -> Answer:
        """The answer for one instance."""
        answer: Answer = await self._put(self._asked, (x, id))
        return answer

    async def label(self, id: str, label: Any) -> Labelled:
        """What became of one label."""
        result: Labelled = await self._put(self._given, (id, label))
        return result

    async def _put(self, waiting: Waiting, item: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waiting.append((item, future))
        if self._work is None:
            self._work = asyncio.create_task(self._go_on())
        return await future

    async def _go_on(self) -> None:
        """Work as long as somebody waits."""
        try:
            while self._asked or self._given:
                asked, self._asked = self._asked, []
                given, self._given = self._given, []
                named = [one for one in asked if one[0][1] is not None]
                others = [one for one in asked if one[0][1] is None]
                # put into the writer's queue in this order, and so committed together
                await asyncio.gather(self._label(given), self._predict(named), self._predict(others))
        finally:
            self._work = None

    async def _label(self, given: Waiting) -> None:
        if not given:
            return
        try:
            _tell(given, await self._live.aio.label_many([item for item, _ in given]))
        except Exception as error:
            _fail(given, error)

    async def _predict(self, asked: Waiting) -> None:
        if len(asked) < FEW:
            await asyncio.gather(*(self._one(*each) for each in asked))
            return
        ids = [id for (_, id), _ in asked]
        try:
            X = np.array([x for (x, _), _ in asked])
            _tell(asked, await self._live.aio.predict_many(X, None if ids[0] is None else ids))
        except InputError:  # of one of them: each for itself, so that the others have their answers
            await asyncio.gather(*(self._one(*each) for each in asked))
        except Exception as error:
            _fail(asked, error)

    async def _one(self, item: tuple[Array, str | None], future: asyncio.Future[Any]) -> None:
        try:
            _tell([(item, future)], [await self._live.aio.predict(*item)])
        except Exception as error:
            _fail([(item, future)], error)


def _tell(waiting: Waiting, results: list[Any]) -> None:
    for (_, future), result in zip(waiting, results, strict=True):
        if not future.done():  # whoever waited too long is gone
            future.set_result(result)


def _fail(waiting: Waiting, error: Exception) -> None:
    for _, future in waiting:
        if not future.done():
            future.set_exception(error)
