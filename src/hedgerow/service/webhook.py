"""Alarms that begin or end, posted to an address that the operator has chosen; no request and no model waits for it."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import httpx

from hedgerow.core.errors import HedgerowError
from hedgerow.service.models import Models, happens
from hedgerow.service.schemas import encode

logger = logging.getLogger("hedgerow.service")
EVERY = 5.0  # seconds between two looks at the alarms
LONGEST = 600.0  # seconds between two tries, when the address does not take them
TIMEOUT = 10.0  # seconds of one try
TRIES = 10  # of one change: about an hour; then it is given up, which is logged
Alarms = dict[tuple[str, str, str], dict[str, Any]]  # by model, rule and title


async def post_alarms(models: Models, address: str, every: float = EVERY) -> None:
    """Look at the alarms of all models until the service ends, and post what has changed.

    What was not delivered is compared again at the next look: later and later, always one request, whose size is
    bounded by the alarms that hold, and never a queue. After `TRIES` failures those changes are given up.
    """
    delivered: Alarms = {}
    failures = 0
    async with httpx.AsyncClient(timeout=TIMEOUT) as http:  # redirects are not followed
        while not await happens(models.stopping, min(LONGEST, every * 2**failures)):
            now = await asyncio.to_thread(_alarms, models)
            changes = [_change(key, now[key], "raised") for key in now if key not in delivered]
            changes += [_change(key, delivered[key], "cleared") for key in delivered if key not in now]
            if not changes:
                continue
            body = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "changes": changes}
            headers = {"Content-Type": "application/json"}
            try:
                async with http.stream("POST", address, content=encode(body), headers=headers) as answer:
                    answer.raise_for_status()  # its body is not read
                delivered, failures = now, 0
            except httpx.HTTPError as error:
                failures += 1
                logger.warning("the webhook did not take %d alarms (%s)", len(changes), type(error).__name__)
                if failures == TRIES:
                    logger.error("the webhook has failed %d times; %d alarms are given up", TRIES, len(changes))
                    delivered, failures = now, 0


def _alarms(models: Models) -> Alarms:
    alarms: Alarms = {}
    for entry in models:
        live = entry.live
        try:
            for alarm in [] if live is None else live.alarms():
                alarms[entry.name, alarm["rule"], alarm["title"]] = alarm
        except HedgerowError:
            continue  # closed meanwhile
    return alarms


def _change(key: tuple[str, str, str], alarm: dict[str, Any], state: str) -> dict[str, Any]:
    return {"model": key[0], "state": state, "alarm": alarm}
