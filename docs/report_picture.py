"""Draws docs/report.png: the top of the report of the demonstration.

Run `python docs/report_picture.py` after the report's looks have changed. It needs
a Chromium on the PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from PIL import Image

from hacs_crawler.demo.play import STATE

PICTURE: Final = Path(__file__).parent / "report.png"
SIZE: Final = (1200, 860)
COLOURS: Final = 64
"""Enough for text and lines; the file stays below 120 KB."""


def draw(picture: Path) -> None:
    """Play the demonstration, write its report, and take a picture of it in a browser."""
    browser = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if browser is None:
        sys.exit("no chromium-headless-shell and no chromium on the PATH")
    environment = os.environ | {"SCRAPY_SETTINGS_MODULE": "hacs_crawler.settings"}
    with tempfile.TemporaryDirectory() as folder:
        for command in (
            ("-m", "scrapy", "crawl", "scholar", "-a", "seeds=demo"),
            ("-m", "hacs_crawler", "report", "-o", "report.html", "-s", f"HACS_STATE={STATE}"),
        ):
            subprocess.run([sys.executable, *command], cwd=folder, env=environment, check=True)
        taken = Path(folder, "taken.png")
        subprocess.run(
            [
                *(browser, "--headless", "--no-sandbox", "--hide-scrollbars"),
                *(f"--window-size={SIZE[0]},{SIZE[1]}", f"--screenshot={taken}"),
                Path(folder, "report.html").as_uri(),
            ],
            check=True,
            capture_output=True,
        )
        Image.open(taken).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


if __name__ == "__main__":
    draw(PICTURE)
