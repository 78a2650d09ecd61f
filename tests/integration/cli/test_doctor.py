"""`hedgerow doctor`: what is broken is found, with a remedy and exit code 1; what only some need is a note."""

from __future__ import annotations

import re
import subprocess
import sys

from support.command import environment

from hedgerow.cli import installation
from hedgerow.cli.installation import PROBLEM


def doctor_after(code):
    program = (
        f"{code}\nfrom hedgerow.__main__ import main\nsys.argv = ['hedgerow', 'doctor']\nmain()"
    )
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment()
    )


def test_a_healthy_installation(hedgerow):
    done = hedgerow("doctor")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all is well"), done.stdout
    assert "\x1b" not in done.stdout
    for word in ("numpy", "kept in", "extra spark", "extra brokers"):
        assert word in done.stdout


def test_a_package_that_is_missing_is_named_with_its_extra():
    done = doctor_after("""
import importlib.metadata as metadata, sys
real = metadata.version
def version(name):
    if name in ("redis", "safetensors"):
        raise metadata.PackageNotFoundError(name)
    return "0.1" if name == "scipy" else real(name)
metadata.version = version
""")
    assert done.returncode == 1, done.stderr
    lines = {re.split(r" {2,}", line)[1]: line for line in done.stdout.splitlines() if "  " in line}
    assert "note" in lines["extra brokers"]
    assert "pip install 'hedgerow[brokers]'" in lines["extra brokers"]
    assert "problem" in lines["safetensors"]
    assert "older than 1.13" in lines["scipy"]
    assert "scipy>=1.13" in lines["scipy"]
    assert done.stdout.splitlines()[-1] == "2 problems"


def test_a_package_that_cannot_be_imported_hides_nothing_else():
    done = doctor_after("import sys\nsys.modules['numba'] = None")
    assert done.returncode == 1, done.stderr
    assert "problem  cache" in done.stdout
    assert "extra spark" in done.stdout


def test_every_problem_has_a_remedy():
    def broken():
        raise OSError("nothing goes")

    findings = installation.examine([broken])
    assert [one.state for one in findings] == [PROBLEM]
    assert all(one.remedy for one in findings)
