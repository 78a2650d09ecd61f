"""Framed records: what was packed comes back, and any other bytes are an error that names the record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law

from hedgerow.core.errors import InputError
from hedgerow.core.frames import FrameKind

KIND = FrameKind(b"xyz2", "restore it")
MINE = b"m" * 16


@law(30)
@given(
    about=st.recursive(st.none() | st.integers() | st.text(), st.lists),
    blocks=st.lists(st.binary()),
    data=st.data(),
)
def test_what_was_packed_comes_back_and_a_changed_byte_is_found(about, blocks, data):
    record = KIND.pack(about, blocks, MINE)
    assert KIND.unpack(record, "the record", MINE) == (MINE, about, blocks)
    place = data.draw(st.integers(0, len(record) - 1))
    for broken in (
        record[:place],
        record[:place] + bytes([record[place] ^ 4]) + record[place + 1 :],
    ):
        with pytest.raises(InputError, match="the record "):
            KIND.unpack(broken, "the record", MINE)


def test_records_of_others_are_named():
    record = KIND.pack([], (), MINE)
    with pytest.raises(
        InputError, match=r"the record belongs to other sources \(digest 6d6d6d6d6d6d, these have"
    ):
        KIND.unpack(record, "the record", bytes(16))
    assert KIND.unpack(record, "the record").owner == MINE
    with pytest.raises(
        InputError, match=r"the record has the format b'2', this version of hedgerow reads b'3'"
    ):
        FrameKind(b"xyz3", "restore it").unpack(record, "the record")
    with pytest.raises(
        InputError, match=r"the record is not a record of this kind \(\d+ bytes\); restore it"
    ):
        FrameKind(b"abc2", "restore it").unpack(record, "the record")
