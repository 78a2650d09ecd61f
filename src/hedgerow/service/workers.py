"""Running `hedgerow.service.worker`: its lines, its limits, its end."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InputError

LINE = 1 << 20  # longest line of a worker
PATIENCE = 5.0  # seconds between SIGTERM and SIGKILL


async def work(task: str, path: Path, seconds: float, memory: int, tell: Callable[[dict[str, Any]], None]) -> None:
    """Run one task to its end; what it says goes to `tell`. If this is cancelled, the process is ended."""
    limits = json.dumps({"seconds": seconds, "bytes": memory})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hedgerow.service.worker", task, limits, str(path),
        stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=LINE,
    )  # fmt: skip
    error = None
    try:
        async with asyncio.timeout(seconds):
            assert process.stdout is not None
            async for line in process.stdout:
                said = _parsed(line)
                error = said.get("error", error)
                tell(said)
            code = await process.wait()
    except TimeoutError:
        raise InputError(f"it took longer than the {seconds:g} s that the service allows") from None
    finally:
        await asyncio.shield(_ended(process))
    if error is not None:
        raise InputError(str(error))
    if code != 0:
        raise InputError(f"its process ended with code {code}: it may need more memory or time than the service allows")


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


async def _ended(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(PATIENCE):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
    if process.stdin is not None:
        process.stdin.close()
