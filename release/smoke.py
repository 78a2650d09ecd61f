"""Install a wheel in a new environment of this Python and use it once: fit, stream, save, load, the command line.

    python3.13 release/smoke.py dist/hedgerow-0.1.0-py3-none-any.whl [--find-links FOLDER]

With --find-links nothing is asked for over the network: the folder has the wheels of all packages that are needed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

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
    parser = argparse.ArgumentParser(description="Install a wheel in a new environment and use it once.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--find-links", type=Path, help="a folder with the wheels of all packages that are needed")
    chosen = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin", "python")
        offline = ["--no-index", "--find-links", chosen.find_links.resolve()] if chosen.find_links else []
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *offline]
        subprocess.run([*install, f"{chosen.wheel.resolve()}[cli]"], check=True)
        subprocess.run([python, "-W", "error", "-c", USE], check=True, cwd=folder)
        for words in (["--version"], ["methods"], ["doctor"]):
            done = subprocess.run([python, "-m", "hedgerow", *words], cwd=folder, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"hedgerow {' '.join(words)}:\n{done.stdout}{done.stderr}")
    print(f"all worked, in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
