"""Pictures of the page for the docs, from the demonstration while it drifts.

    python docs/screenshots.py [--out docs] [--events 640]

Needs Chromium and Playwright. Starts `hedgerow serve --demo`, waits for so many events and an alarm, and takes the page
in both themes and at a phone's width.
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

VIEWS = {
    "light": (1100, 1400, "light"),
    "dark": (1180, 1300, "dark"),
    "phone": (360, 1500, "light"),
}
LARGEST = 200_000  # bytes
LONGEST = 180  # seconds until the demonstration has so many events and an alarm
SHOWN = "(n) => document.querySelector('.alarm') && Number(document.querySelector('#events').value) >= n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--events", type=int, default=600)
    asked = parser.parse_args()
    command = [sys.executable, "-m", "hedgerow", "serve", "--demo", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"at (http://\S+)", process.stderr.readline())
        assert found
        take(found[1], asked.out, asked.events)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def take(url: str, out: Path, events: int) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        pages = {}
        for name, (width, height, theme) in VIEWS.items():
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=theme,
                reduced_motion="reduce",
            )
            pages[name] = context.new_page()
            pages[name].goto(f"{url}/models/digits")
        for page in pages.values():
            page.wait_for_function(SHOWN, arg=events, timeout=1000 * LONGEST)
        taken = {name: page.screenshot(full_page=name == "light") for name, page in pages.items()}
        browser.close()
    for name, png in taken.items():  # afterwards, since it takes longer than the alarm lasts
        write(out / f"page-{name}.png", png)


def write(path: Path, png: bytes) -> None:
    Image.open(io.BytesIO(png)).convert("RGB").quantize(
        256, kmeans=2, dither=Image.Dither.NONE
    ).save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path}: {size / 1000:.0f} kB")
    assert size < LARGEST, "too large for the docs: take a smaller part"


if __name__ == "__main__":
    main()
