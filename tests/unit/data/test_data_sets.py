import subprocess
import sys

import h5py
import numpy as np
import pytest
import scipy.io

from hedgerow.core.errors import DataMissing, InputError
from hedgerow.data import available, load

SIZES = {
    "office-caltech": {"amazon": 958, "caltech": 1123, "dslr": 157, "webcam": 295},
    "pie": {"PIE1": 3332, "PIE2": 1629, "PIE3": 1632, "PIE4": 3329, "PIE5": 1632},
    "amazon-reviews": {"books": 2000, "dvd": 1999, "elec": 1998, "kitchen": 1999},
    "office-googlenet": {"amazon": 958, "dslr": 157, "webcam": 295},
}


@pytest.mark.parametrize("name", SIZES)
def test_the_published_sizes_and_labels(data_dir, name):
    domains = load(name, data_dir)
    assert {key: len(domain) for key, domain in domains.items()} == SIZES[name]
    row = next(row for row in available(data_dir) if row.name == name)
    assert row.domains == tuple(domains)
    assert row.rows == sum(SIZES[name].values())
    first = 0 if name == "amazon-reviews" else 1
    for key, domain in domains.items():
        assert domain.name == key
        assert domain.X.dtype == (np.float32 if name == "office-googlenet" else np.float64)
        assert domain.X.shape[1] == row.features
        assert domain.y.dtype == np.int64
        assert np.array_equal(np.unique(domain.y), np.arange(first, first + row.classes))


def test_both_forms_of_office_caltech_are_the_same_rows_in_the_same_order(data_dir, tmp_path):
    (tmp_path / "office_caltech10_surf").symlink_to(data_dir / "office_caltech10_surf")
    authors = load("office-caltech", data_dir)
    surf = load("office-caltech", tmp_path)
    for name, domain in authors.items():
        assert np.array_equal(domain.X, surf[name].X)
        assert np.array_equal(domain.y, surf[name].y)
        assert surf[name].order is None


def test_the_authors_order_counts_from_zero(data_dir):
    for domain in load("office-caltech", data_dir).values():
        assert np.array_equal(np.sort(domain.order), np.arange(len(domain)))
    with h5py.File(data_dir / "homotl_oddm" / "dslr.mat") as file:
        published = file["ID_old"][()].ravel()
    assert np.array_equal(load("office-caltech", data_dir)["dslr"].order + 1, published)


def test_the_environment_names_the_folder(data_dir, monkeypatch):
    monkeypatch.setenv("HEDGEROW_DATA", str(data_dir))
    assert len(load("office-caltech")["dslr"]) == 157


def write_authors_file(path, n, seed, features=800):
    """A file as MATLAB's -v7.3 writes it: a 512-byte header, then HDF5, every array transposed."""
    rng = np.random.default_rng(seed)
    data = np.column_stack([np.arange(n) % 3 + 1, rng.integers(0, 9, (n, features))]).astype(float)
    order = rng.permutation(n)
    with h5py.File(path, "w", userblock_size=512) as file:
        file["data"] = data.T
        file["ID_old"] = (order + 1.0)[:, None]
        file["labels_num"] = np.array([[3.0]])
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512))
    return data, order


def test_pie_in_the_authors_form_is_preferred_to_the_rebuilt_one(tmp_path):
    for folder in ("homotl_oddm", "pie"):
        (tmp_path / folder).mkdir()
    for pose in ("05", "07", "09", "27", "29"):
        pixels = {
            "fea": np.full((2, 1024), 7, dtype=np.uint8),
            "gnd": np.array([[1], [2]], dtype=np.uint8),
        }
        scipy.io.savemat(tmp_path / "pie" / f"PIE{pose}.mat", pixels)
    assert load("pie", tmp_path)["PIE4"].X.tolist() == [[7.0] * 1024] * 2
    written = [
        write_authors_file(tmp_path / "homotl_oddm" / f"PIE{i}.mat", 6, i, 1024)
        for i in range(1, 6)
    ]
    for domain, (data, order) in zip(load("pie", tmp_path).values(), written, strict=True):
        assert np.array_equal(domain.X, data[:, 1:])
        assert np.array_equal(domain.y, data[:, 0])
        assert np.array_equal(domain.order, order)


def test_files_may_lie_in_the_named_folder_itself(tmp_path):
    for i, name in enumerate(("amazon.mat", "Caltech10.mat", "dslr.mat", "webcam.mat")):
        write_authors_file(tmp_path / name, 5, i)
    assert list(load("office-caltech", tmp_path)) == ["amazon", "caltech", "dslr", "webcam"]
    found = {row.name: row.where for row in available(tmp_path)}
    assert found["digits"] == "embedded"
    assert found["office-caltech"] == f"found at {tmp_path}"
    assert found["pie"] == "needs download"


def test_files_of_another_set_with_the_same_names_are_refused(data_dir):
    with pytest.raises(
        DataMissing, match=r"amazon\.mat has 800 features, office-googlenet has 1024"
    ):
        load("office-googlenet", data_dir / "homotl_oddm")


def test_a_named_folder_without_the_files_is_an_error_that_lists_them(tmp_path):
    write_authors_file(tmp_path / "dslr.mat", 5, 0)
    with pytest.raises(
        DataMissing, match=r"lacks amazon\.mat, Caltech10\.mat, webcam\.mat.*HEDGEROW_DATA=<dir>"
    ) as caught:
        load("office-caltech", tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("by_argument", [True, False])
def test_a_folder_that_does_not_exist_is_named(tmp_path, monkeypatch, by_argument):
    nowhere = tmp_path / "nowhere"
    monkeypatch.setenv("HEDGEROW_DATA", str(nowhere))
    with pytest.raises(DataMissing, match=r"nowhere.*no such folder"):
        load("pie", nowhere if by_argument else None)


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(
        InputError, match=r"unknown data set 'ofice-caltech'; did you mean 'office-caltech'\?"
    ):
        load("ofice-caltech")


def test_importing_is_cheap():
    heavy = ["scipy", "sklearn", "pandas", "h5py", "pooch", "pyarrow"]
    code = f"import sys, hedgerow.data; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
