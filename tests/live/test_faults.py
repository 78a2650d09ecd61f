"""Damaged files and disks that fail: found and said, and nothing that was acknowledged is lost. The long version is
`make torture`."""

from __future__ import annotations

import pytest
from live.faults import all_damage, failing_disk, full_disk


def test_damage_is_found_or_changes_nothing(tmp_path):
    totals = all_damage(tmp_path, 40, say=lambda text: None)
    for how in ("flips", "cuts", "header_flips"):
        assert totals[how, "found"] > 5
        assert totals[how, "passed over"] > 5


def test_a_full_disk_and_a_read_only_one(tmp_path):
    refused = full_disk(tmp_path, say=lambda text: None)
    if refused is None:
        pytest.skip("no small disk to fill: mounting a tmpfs needs the superuser")
    assert refused >= 3


def test_a_disk_that_fails(tmp_path):
    refused = failing_disk(tmp_path, say=lambda text: None)
    if refused is None:
        pytest.skip("no gcc: apt-get install gcc")
    assert refused > 20
