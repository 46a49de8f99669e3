"""Commands run in an empty folder that is no project's, and all that they say is heard."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _heard_in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCRAPY_SETTINGS_MODULE", raising=False)
    caplog.set_level("INFO")
