"""kill -9 of a process that feeds a fleet: every label that was acknowledged is learned, once."""

from __future__ import annotations

from pathlib import Path

from fleet.kills import kill_fleet


def test_kills(tmp_path: Path) -> None:
    lines: list[str] = []
    kill_fleet(tmp_path, kills=6, batches=60, say=lines.append)
    assert len(lines) == 1
