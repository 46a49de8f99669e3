"""The Chromium that tests drive with Playwright."""

import os
import shutil

import pytest

# the first has no window to draw, which is more than half of what the others take
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
if "HACS_TESTS_CHROMIUM" in os.environ:
    _NAMES = (os.environ["HACS_TESTS_CHROMIUM"],)
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: install the package chromium-headless-shell"
)
