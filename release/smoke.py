"""Install a wheel in a new environment of this Python and use it once: fit, stream, save, load, the command line.

    python3.13 release/smoke.py dist/hedgerow-0.1.0-py3-none-any.whl [--lowest] [--find-links FOLDER]

With --lowest the packages are the oldest that the wheel allows. With --find-links nothing is asked for over the
network: the folder has the wheels of all packages that are needed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from zipfile import ZipFile

USE = """
import hedgerow, platform
from hedgerow import OnlineTransferClassifier, load, split
domains = load("digits")
warmup, stream = split(domains["shifted"], warmup=0.3, seed=0)
sources = [domain for name, domain in domains.items() if name != "shifted"]
for method in ("hedgerow", "oddm"):
    clf = OnlineTransferClassifier(method).fit_domains(sources, warmup)
    first, rest = slice(0, 400), slice(400, 700)
    wrong = (clf.predict_then_learn(stream.X[first], stream.y[first]) != stream.y[first]).mean()
    clf.save("m.safetensors")
    again = OnlineTransferClassifier.load("m.safetensors")
    same = (clf.predict_then_learn(stream.X[rest], stream.y[rest])
            == again.predict_then_learn(stream.X[rest], stream.y[rest])).all()
    assert same and wrong < 0.6, (same, wrong)
    print(f"python {platform.python_version()}: {method} {wrong:.1%} mistakes in 400 labels, saved and resumed")
"""


def main() -> None:
    """Stops with an error at the first thing that does not work."""
    parser = argparse.ArgumentParser(
        description="Install a wheel in a new environment and use it once."
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument(
        "--find-links", type=Path, help="a folder with the wheels of all packages that are needed"
    )
    parser.add_argument(
        "--lowest", action="store_true", help="with the oldest packages that the wheel allows"
    )
    chosen = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin", "python")
        offline = (
            ["--no-index", "--find-links", chosen.find_links.resolve()] if chosen.find_links else []
        )
        install = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *offline,
        ]
        oldest = lowest(chosen.wheel) if chosen.lowest else []
        subprocess.run([*install, f"{chosen.wheel.resolve()}[cli]", *oldest], check=True)
        subprocess.run([python, "-W", "error", "-c", USE], check=True, cwd=folder)
        for words in (["--version"], ["methods"], ["doctor"]):
            done = subprocess.run(
                [python, "-m", "hedgerow", *words], cwd=folder, capture_output=True, text=True
            )
            if done.returncode:
                sys.exit(f"hedgerow {' '.join(words)}:\n{done.stdout}{done.stderr}")
    print(f"all worked, in {time.monotonic() - began:.0f} s")


def lowest(wheel: Path) -> list[str]:
    """The packages of the core and of the extra `cli`, each at the version that the wheel asks for at least."""
    with ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    asked = [
        re.fullmatch(r"Requires-Dist: ([\w.-]+)>=([\w.]+)(; extra == .cli.)?", line)
        for line in lines
    ]
    return [f"{found[1]}=={found[2]}.*" for found in asked if found]


if __name__ == "__main__":
    main()
