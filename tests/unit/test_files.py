"""Files are written whole or not at all, and a place that will not do is refused before anything relies on it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hedgerow.core.errors import InputError
from hedgerow.files import check_writable, same_file, write_whole


def test_a_link_stays_a_link_and_the_mode_is_kept(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / "file"
    link = tmp_path / "link"
    chain = tmp_path / "chain"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to(Path("deep") / "file")
    chain.symlink_to(link)
    write_whole(chain, b"new")
    assert chain.is_symlink()
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["file"]


def test_a_link_to_nothing_yet_gets_its_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    check_writable(tmp_path / "link")
    assert not (tmp_path / "file").exists()
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_new_file_has_the_mode_that_the_system_gives(tmp_path: Path) -> None:
    (tmp_path / "usual").write_bytes(b"")
    write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_name_as_long_as_the_system_allows(tmp_path: Path) -> None:
    write_whole(tmp_path / ("a" * 255), b"new")
    assert [len(p.name) for p in tmp_path.iterdir()] == [255]


def test_the_superuser_does_not_take_a_file_away_from_its_owner(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only the superuser can try")
    file = tmp_path / "theirs"
    file.write_bytes(b"old")
    os.chown(file, 65534, 65534)
    write_whole(file, b"new")
    assert (file.stat().st_uid, file.stat().st_gid) == (65534, 65534)


def places(folder: Path) -> dict[str, tuple[Path, str]]:
    """Where nothing can be written, and what the error says."""
    (folder / "file").write_bytes(b"old")
    (folder / "file").chmod(0o444)
    (folder / "link").symlink_to("file")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    return {
        "folder": (folder, "is a folder"),
        "no folder": (folder / "none" / "model", "none does not exist"),
        "a file for a folder": (folder / "file" / "model", "does not exist"),
        "read-only": (folder / "file", "read-only"),
        "link to read-only": (folder / "link", "read-only"),
        "link to itself": (folder / "loop", "cannot write"),
        "pipe": (folder / "pipe", "not a regular file"),
        "device": (Path("/dev/full"), "not a regular file"),
        "a folder of the system": (Path("/proc/model"), "cannot write to /proc/model"),
    }


@pytest.mark.parametrize(
    "kind",
    [
        "folder", "no folder", "a file for a folder", "read-only", "link to read-only", "link to itself", "pipe",
        "device", "a folder of the system",
    ],
)  # fmt: skip
def test_a_place_that_will_not_do_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    path, words = places(tmp_path)[kind]
    before = sorted(tmp_path.iterdir())
    for attempt in (lambda: check_writable(path, 10), lambda: write_whole(path, b"new")):
        with pytest.raises(InputError, match=words):
            attempt()
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_bytes() == b"old"


LIMITED = """
import resource, sys
from hedgerow.core.errors import InputError
from hedgerow.files import check_writable, write_whole
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
check_writable(sys.argv[1], 100_000)
for attempt in (lambda: check_writable(sys.argv[1], 100_001), lambda: write_whole(sys.argv[1], bytes(3_000_000))):
    try:
        attempt()
    except InputError as error:
        print(error)
"""


def test_room_for_the_size_is_tried(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"old")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path / "model"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"cannot write to {tmp_path / 'model'}: File too large") == 2
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("model", b"old")]


def test_checking_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    before = (tmp_path / "file").stat()
    check_writable(tmp_path / "file", 1_500_000)
    check_writable(tmp_path / "new", 1_500_000)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
    assert (tmp_path / "file").stat() == before


def test_one_file_by_two_names(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "e").symlink_to("d")
    (tmp_path / "to-come").symlink_to(Path("d") / "x")
    new = tmp_path / "d" / "x"
    alike = [tmp_path / "e" / "x", tmp_path / "d" / ".." / "d" / "x", tmp_path / "to-come"]
    assert all(same_file(new, other) for other in alike)
    assert not same_file(new, tmp_path / "x")
    new.write_bytes(b"")
    os.link(new, tmp_path / "hard")
    assert all(same_file(new, other) for other in [*alike, tmp_path / "hard"])
    assert not same_file(new, tmp_path / "d" / "y")
