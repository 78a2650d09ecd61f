"""Downloads, against a real HTTP server on this machine."""

import functools
import http.server
import socket
import threading
from dataclasses import replace

import numpy as np
import pytest
import scipy.io

from hedgerow.core.errors import DataMissing
from hedgerow.data import DATA_SETS, Layout, available, fingerprint, load, obtain


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        super().do_GET()

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    """An HTTP server over a folder; `asked` lists the paths it was asked for."""
    folder = tmp_path / "served"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=folder)
    ) as running:
        running.asked = []
        running.folder = folder
        running.address = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch):
    monkeypatch.delenv("HEDGEROW_DATA", raising=False)


def serve_pie(folder):
    """Five small files in PIE's place, and the data set with their true git blob ids as checks."""
    files = []
    for i, file in enumerate(DATA_SETS["pie"].layouts[0].files):
        path = folder / file.name
        scipy.io.savemat(
            path, {"fea": np.full((3, 2), i, dtype=np.uint8), "gnd": np.array([[1], [2], [3]])}
        )
        files.append(replace(file, check=fingerprint(path.read_bytes(), "git-blob")))
    return replace(DATA_SETS["pie"], layouts=(Layout("homotl_oddm", tuple(files)),))


def test_the_real_files_pass_their_checks_and_are_fetched_once(data_dir, server, tmp_path):
    for name, folder in (("office-caltech", "homotl_oddm"), ("amazon-reviews", "amazon_reviews")):
        for file in DATA_SETS[name].layouts[0].files:
            (server.folder / file.name).write_bytes((data_dir / folder / file.name).read_bytes())
        fetched = load(name, cache=tmp_path / "cache", mirror=server.address)
        at_hand = load(name, data_dir)
        for key, domain in at_hand.items():
            assert np.array_equal(domain.X, fetched[key].X)
    assert len(server.asked) == 8
    load("office-caltech", cache=tmp_path / "cache", mirror=server.address)
    assert len(server.asked) == 8
    where = {row.name: row.where for row in available(cache=tmp_path / "cache")}
    assert where["office-caltech"] == f"found at {tmp_path / 'cache' / 'homotl_oddm'}"


def test_blob_ids_are_checked(server, tmp_path):
    paths = obtain(serve_pie(server.folder), cache=tmp_path / "cache", mirror=server.address + "/")
    assert [path.name for path in paths] == [f"PIE{i}.mat" for i in range(1, 6)]
    assert sorted(path.name for path in (tmp_path / "cache" / "homotl_oddm").iterdir()) == [
        path.name for path in paths
    ]


def test_a_changed_file_is_refused_and_deleted(server, tmp_path):
    data_set = serve_pie(server.folder)
    with (server.folder / "PIE3.mat").open("ab") as stream:
        stream.write(b"!")
    with pytest.raises(
        DataMissing,
        match=r"PIE3\.mat is not the published file \(expected git-blob:\w{40}, got git-blob",
    ):
        obtain(data_set, cache=tmp_path / "cache", mirror=server.address)
    kept = sorted(path.name for path in (tmp_path / "cache" / "homotl_oddm").iterdir())
    assert kept == ["PIE1.mat", "PIE2.mat"]


def test_a_download_that_broke_off_goes_on_with_the_files_still_missing(server, tmp_path):
    data_set = serve_pie(server.folder)
    kept = (server.folder / "PIE4.mat").read_bytes()
    (server.folder / "PIE4.mat").unlink()
    with pytest.raises(DataMissing, match=r"PIE4\.mat failed \(HTTPError: HTTP Error 404"):
        obtain(data_set, cache=tmp_path / "cache", mirror=server.address)
    (server.folder / "PIE4.mat").write_bytes(kept)
    server.asked.clear()
    obtain(data_set, cache=tmp_path / "cache", mirror=server.address)
    assert server.asked == ["/PIE4.mat", "/PIE5.mat"]


@pytest.mark.parametrize("name", DATA_SETS)
def test_no_network_says_what_is_missing_where_and_what_to_do(tmp_path, name):
    with socket.socket() as unused:  # bound and not listening: connections are refused
        unused.bind(("127.0.0.1", 0))
        mirror = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(DataMissing) as caught:
            load(name, cache=tmp_path, mirror=mirror)
    message = str(caught.value)
    layout = DATA_SETS[name].layouts[0]
    for part in (
        str(tmp_path),
        layout.folder,
        DATA_SETS[name].home,
        "HEDGEROW_DATA=<dir>",
        "--data-dir",
        "Connection refused",
    ):
        assert part in message
    assert all(file.name in message for file in layout.files)


def test_a_folder_of_the_users_comes_before_the_network_and_is_named_when_it_lacks_the_files(
    tmp_path, monkeypatch, server
):
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.setenv("HEDGEROW_DATA", str(mine))
    with pytest.raises(DataMissing, match=r"not found in '.*mine'.*HTTPError: HTTP Error 404"):
        load("office-caltech", cache=tmp_path / "cache", mirror=server.address)


def test_a_named_folder_is_never_replaced_by_a_download(tmp_path, server):
    with pytest.raises(DataMissing):
        load("pie", tmp_path, cache=tmp_path / "cache", mirror=server.address)
    assert server.asked == []


def test_every_public_file_has_an_address_and_a_check():
    for data_set in DATA_SETS.values():
        assert len(data_set.layouts[0].files) == len(data_set.domains)
        for file in data_set.layouts[0].files:
            assert file.url.startswith("https://")
            assert file.url.endswith("/" + file.name)
            assert file.check.startswith(("sha256:", "git-blob:"))
