"""Where compiled kernels are kept: only where that is safe, wherever it is possible; and what people see of it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import environment

import hedgerow
from hedgerow.cli.installation import warm as warm_here
from hedgerow.kernels import compiled as kernels

PACKAGE = Path(hedgerow.__file__).parent
NOBODY = 65534
NOTE = "compiling, once per installation; this may take half a minute"
NO_HOME = "/proc/none"  # can be made by no one, not even by root
# root without its right to pass by permissions: PR_CAPBSET_DROP, CAP_DAC_OVERRIDE; it is gone with the next program
AS_OTHERS = """
import ctypes, os, sys
assert ctypes.CDLL(None).prctl(24, 1, 0, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""
REPORT = """
print(json.dumps({
    **dict(zip(("compiled", "loaded", "unsaved"), compiled.statistics())),
    "folders": [str(folder) for folder, reason in compiled.folders().items() if not reason],
    "unused": {str(folder): reason for folder, reason in compiled.folders().items() if reason},
}))
"""
ONE_KERNEL = (
    """
import json, logging, sys
import numpy as np
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="log: %(message)s")
from hedgerow.kernels import compiled, experts
x = np.array([3.0, 4.0])
assert experts.dot(x, x) == 25
"""
    + REPORT
)
FIRST_USE = (
    """
import json
import numpy as np
from hedgerow import OnlineTransferClassifier
rng = np.random.default_rng(0)
X, y, domain = rng.normal(size=(300, 20)), np.arange(300) % 3, np.repeat([0, 1, -1], 100)
clf = OnlineTransferClassifier("{method}").fit(X, y, sample_domain=domain)
clf.predict_one(X[0])
clf.learn_one(X[0], y[0])
clf.predict_then_learn(X, y)
from hedgerow.kernels import compiled
"""
    + REPORT
)

DIGEST = """
import hashlib, json
import numpy as np
from hedgerow import OnlineTransferClassifier
rng = np.random.default_rng(0)
X, y, domain = rng.normal(size=(400, 40)), np.arange(400) % 7, np.repeat([0, 1, 2, -1], 100)
clf = OnlineTransferClassifier("oddm").fit(X, y, sample_domain=domain)
clf.predict_then_learn(X[300:], y[300:])
for x, label in zip(X[:50], y[:50]):
    clf.predict_one(x)
    clf.learn_one(x, label)
state = clf.learner_.state
from hedgerow.kernels import compiled
found = {name: hashlib.sha256(np.ascontiguousarray(state[name]).tobytes()).hexdigest() for name in sorted(state)}
print(json.dumps({"state": found, "compiled": compiled.statistics()[0]}))
"""


@pytest.fixture
def site(tmp_path):
    """A copy of the package; all rights are given back at the end, so that it can be removed."""
    shutil.copytree(
        PACKAGE, tmp_path / "site" / "hedgerow", ignore=shutil.ignore_patterns("__pycache__")
    )
    yield tmp_path / "site"
    subprocess.run(["chmod", "-R", "u+w", tmp_path], check=True)


def close(folder: Path) -> None:
    subprocess.run(["chmod", "-R", "a-w", folder], check=True)


def python(
    site: Path, arguments: list[str], home: object = NO_HOME, **options
) -> subprocess.CompletedProcess[str]:
    """A process with this package that may write only where permissions let it, even if root runs the tests."""
    env = {k: v for k, v in environment().items() if not k.startswith(("NUMBA", "XDG"))}
    env |= {
        "PYTHONPATH": str(site),
        "HOME": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
    } | options.pop("env", {})
    command = [sys.executable, "-W", "error", *arguments]
    if os.getuid() == 0:
        command = [sys.executable, "-c", AS_OTHERS, *command]
    return subprocess.run(command, text=True, env=env, cwd="/", timeout=300, **options)


def report(site: Path, code: str = ONE_KERNEL, home: object = NO_HOME, **env: str) -> dict:
    done = python(site, ["-c", code], home, env=env, capture_output=True)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()  # one before the first compilation, in a pipe too
    assert all(line.startswith("hedgerow: compiling, ") for line in lines)
    assert len(lines) <= 1
    *logged, last = done.stdout.splitlines()
    return {"log": "\n".join(logged)} | json.loads(last)


def made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.slow
def test_a_package_and_a_home_that_cannot_be_written(site):
    close(site)
    found = report(site, FIRST_USE.replace("{method}", "hedgerow"))
    assert found["unsaved"] == found["compiled"] > 0
    assert found["folders"] == []
    assert "in every process" in report(site)["log"]


@pytest.mark.slow
def test_a_package_that_cannot_be_written_leaves_the_users_own_folder(site):
    close(site)
    home = made(site.parent / "home")
    first = report(site, home=home)
    second = report(site, home=home)
    assert (first["compiled"], first["loaded"], second["compiled"], second["loaded"]) == (
        1,
        0,
        0,
        1,
    )
    assert NOTE in first["log"]
    assert "compiled dot" in first["log"]
    assert second["log"] == ""
    (folder,) = map(Path, first["folders"])
    assert folder.parent == home / ".cache" / "hedgerow" / "compiled"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.slow
def test_xdg_cache_home_is_the_users_own_folder(site):
    close(site)
    cache = made(site.parent / "caches")
    (folder,) = report(site, XDG_CACHE_HOME=str(cache))["folders"]
    assert Path(folder).is_relative_to(cache / "hedgerow")
    assert report(site, XDG_CACHE_HOME="caches")["folders"] == []


def test_numba_cache_dir_comes_first(site):
    cache = made(site.parent / "cache")
    (folder,) = report(site, NUMBA_CACHE_DIR=str(cache))["folders"]
    assert Path(folder).is_relative_to(cache)


@pytest.mark.slow
def test_a_filled_package_that_cannot_be_written_is_read(site):
    made(site / "hedgerow" / "kernels" / "__pycache__")
    assert report(site)["compiled"] == 1
    close(site)
    assert report(site)["compiled"] == 0
    elsewhere = made(site.parent / "cache")
    assert (
        report(site, NUMBA_CACHE_DIR=str(elsewhere))["compiled"] == 0
    )  # though another folder comes first


@pytest.mark.slow
def test_what_is_damaged_is_compiled_again(site):
    made(site / "hedgerow" / "kernels" / "__pycache__")
    (folder,) = report(site)["folders"]
    for path in Path(folder).glob("*.nb?"):
        path.write_bytes(path.read_bytes()[:100])
    assert report(site)["compiled"] == 1


@pytest.mark.slow
def test_a_change_in_any_loop_is_one_in_all(site):
    """numba compiles a loop into those that call it, and looks for changes only in the file of each."""
    home = made(site.parent / "home")
    made(site / "hedgerow" / "kernels" / "__pycache__")
    assert report(site, home=home)["compiled"] == 1
    with (site / "hedgerow" / "kernels" / "rows.py").open("a") as file:
        file.write("# changed\n")
    assert report(site, home=home)["compiled"] == 1
    assert report(site, home=home)["compiled"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("place", ["NUMBA_CACHE_DIR", "package", "own"])
def test_a_folder_that_others_can_write_is_neither_read_nor_written(site, place):
    home = made(site.parent / "home")
    chosen = made(site.parent / "cache")
    env = {"NUMBA_CACHE_DIR": str(chosen)} if place == "NUMBA_CACHE_DIR" else {}
    if place == "package":
        made(site / "hedgerow" / "kernels" / "__pycache__")
    (first,) = report(site, home=home, **env)["folders"]
    Path(first).chmod(0o777)
    found = report(site, home=home, **env)
    assert (found["compiled"], found["loaded"]) == (1, 0)
    assert first not in found["folders"]
    assert found["unused"][first] == "others can write to it"


def test_folders_that_are_refused(tmp_path):
    good = tmp_path / "good"
    assert kernels.refusal(good) == ""
    assert stat.S_IMODE(good.stat().st_mode) == 0o700
    good.chmod(0o702)
    assert "others can write" in kernels.refusal(good)
    good.chmod(0o777)
    assert "everyone can write" in kernels.refusal(good / "inside")
    good.chmod(0o1777)  # sticky: nobody can put another in its place
    assert kernels.refusal(good / "inside") == ""
    (tmp_path / "file").touch()
    assert kernels.refusal(tmp_path / "file") == "File exists"
    (tmp_path / "link").symlink_to(tmp_path / "open", target_is_directory=True)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert "others can write" in kernels.refusal(tmp_path / "link")


@pytest.mark.parametrize(("package", "reason"), [(0o755, "others can write to it"), (0o775, "")])
def test_a_group_may_write_where_it_may_write_the_loops(tmp_path, monkeypatch, package, reason):
    home = made(tmp_path / "package")
    folder = made(tmp_path / "folder")
    home.chmod(package)
    folder.chmod(0o770)
    monkeypatch.setattr(kernels, "HERE", home)
    assert kernels.refusal(folder) == reason
    if os.getuid() == 0:
        os.chown(folder, 0, NOBODY)
        assert kernels.refusal(folder) == "others can write to it"


def test_folders_of_other_users_are_refused(tmp_path, monkeypatch):
    if os.getuid():
        pytest.skip("only root can give a folder away")
    other = tmp_path / "other"
    link = tmp_path / "link"
    package = made(tmp_path / "package")
    other.mkdir(mode=0o700)
    link.symlink_to(other)
    os.chown(other, NOBODY, NOBODY)
    for path in (other, link):
        assert "another user" in kernels.refusal(path)
    os.chown(package, NOBODY, NOBODY)
    monkeypatch.setattr(kernels, "HERE", package)
    for path in (other, link):
        assert kernels.refusal(path) == ""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["terminal", "pipe"])
def test_one_line_when_compiling_and_none_later(site, where):
    home = made(site.parent / "home")
    for expected in (f"hedgerow: {NOTE}", ""):
        reader, writer = os.openpty() if where == "terminal" else os.pipe()
        done = python(site, ["-c", ONE_KERNEL], home, stdout=subprocess.PIPE, stderr=writer)
        os.close(writer)
        try:
            seen = os.read(reader, 10_000).decode()
        except OSError:  # Linux: nothing was written, and nobody is left to write
            seen = ""
        os.close(reader)
        assert done.returncode == 0, seen
        assert seen.splitlines() == ([expected] if expected else [])


def warm(*, site: Path | None = None, **options) -> subprocess.CompletedProcess[str]:
    arguments = ["-m", "hedgerow", "warm"]
    if site is not None:
        return python(site, arguments, capture_output=True, **options)
    env = environment(PYTHONPATH=str(PACKAGE.parent))
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=env, timeout=600
    )


@pytest.mark.slow
def test_after_warm_no_process_compiles_and_without_a_folder_it_fails(site):
    done = warm()
    assert done.returncode == 0, done.stderr
    first, *kept, _ = done.stdout.splitlines()
    assert "kernels compiled" in first
    folders = [line.removeprefix("kept in ") for line in kept if line.startswith("kept in ")]
    for method in ("hedgerow", "oddm", "homotl-1"):
        code = FIRST_USE.replace("{method}", method)
        env = environment(PYTHONPATH=str(PACKAGE.parent))
        last = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
        )
        assert json.loads(last.stdout)["compiled"] == 0

    beside = site / "hedgerow" / "kernels" / "__pycache__"
    beside.mkdir()
    for folder in folders:
        for path in Path(folder).glob("*.nb?"):
            shutil.copy(path, beside)
    (removed,) = beside.glob("experts.step-*.nbi")
    forms = len(
        [*beside.glob(f"{removed.stem}.*.nbc")]
    )  # those of warm, and what other tests have compiled
    removed.unlink()
    close(site)
    done = warm(site=site)
    assert done.returncode == 1
    assert 1 <= int(done.stdout.split(" kernels compiled")[0]) <= forms  # of that kernel alone
    assert f"not written: {beside}: " in done.stdout
    assert "NUMBA_CACHE_DIR" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_process_that_compiles_and_one_that_reads_give_the_same_bits(site):
    home = made(site.parent / "home")
    first = report(site, DIGEST, home)
    second = report(site, DIGEST, home)
    assert first["compiled"] > 0
    assert second["compiled"] == 0
    assert first["state"] == second["state"]


@pytest.mark.slow
def test_no_loop_calls_another_at_run_time():
    """Which of several copies such a call would reach depends on what the process had loaded before."""
    warm_here(lambda *told: None)
    for loop in kernels.KERNELS:
        for form in loop.overloads.values():
            names = [each.name for each in form.library._get_module_for_linking().functions]
            assert any(form.fndesc.mangled_name in name for name in names)
            assert (
                not form.library.has_dynamic_globals
            )  # addresses of this process, which must not be kept
            others = [
                name for name in names if "8hedgerow7kernels" in name and loop.__name__ not in name
            ]
            assert not others, f"{loop.__name__} calls {others}"


def test_every_loop_has_the_decorator():
    sources = "".join(
        path.read_text() for path in (PACKAGE / "kernels").glob("*.py") if path.stem != "compiled"
    )
    assert "njit" not in sources
    assert all(isinstance(loop._cache, kernels.KernelCache) for loop in kernels.KERNELS)
