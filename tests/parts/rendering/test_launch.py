"""Which browser is launched, and that none is where its file is not there."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from hacs_crawler.parts.rendering import launch
from hacs_crawler.parts.rendering.launch import BrowserMissingError, launch_options, short_folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "browsers" / "chromium-1" / "linux" / "chrome"


def options(own: Path, **given: Any) -> dict[str, Any]:
    return launch_options(Settings(given), str(own))


def made(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def test_playwright_s_own_browser_is_launched_as_it_is(own: Path) -> None:
    assert options(made(own)) == {}
    unnamed = {"executable_path": None}
    assert options(own, PLAYWRIGHT_LAUNCH_OPTIONS=unnamed) == unnamed


def test_where_it_is_missing_the_system_s_chromium_is_launched(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = made(tmp_path / "bin" / launch.CHROMIUMS[1])
    system.chmod(0o755)
    monkeypatch.setenv("PATH", str(system.parent))
    assert options(own) == {"executable_path": str(system)}


def test_where_there_is_no_other_that_is_said(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BrowserMissingError, match=f"there is no {own}"):
        options(own)


def test_playwright_s_own_that_draws_no_windows_is_enough(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    made(own.parents[2] / "chromium_headless_shell-1" / "shell")
    assert options(own) == {}


def test_what_the_project_says_itself_is_launched(own: Path, tmp_path: Path) -> None:
    named = {"executable_path": str(tmp_path / "chrome"), "args": ["--no-sandbox"]}
    with pytest.raises(BrowserMissingError, match="chrome"):
        options(own, PLAYWRIGHT_LAUNCH_OPTIONS=named)
    (tmp_path / "chrome").touch()
    assert options(own, PLAYWRIGHT_LAUNCH_OPTIONS=named) == named


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"PLAYWRIGHT_CDP_URL": "http://localhost:9222"},
        {"PLAYWRIGHT_LAUNCH_OPTIONS": {"channel": "chrome"}},
    ],
)
def test_a_browser_elsewhere_is_not_looked_for(own: Path, elsewhere: dict[str, Any]) -> None:
    assert options(own, **elsewhere) == elsewhere.get("PLAYWRIGHT_LAUNCH_OPTIONS", {})


def test_its_temporary_folder_has_a_short_name_whatever_tmpdir_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = made(tmp_path / (60 * "x") / (40 * "y") / "file").parent
    for given in (str(long), "/tmp"):
        monkeypatch.setattr("tempfile.tempdir", given)
        with short_folder() as folder:
            assert len(f"{folder}/.org.chromium.Chromium.xxxxxx/SingletonSocket") <= 107
    assert [*long.iterdir()] == [long / "file"]
    for most, folder_of in (len(str(tmp_path)), tmp_path), (len(str(tmp_path)) - 1, Path("/tmp")):
        monkeypatch.setattr(launch, "MOST_FOLDER_CHARACTERS", most)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        with short_folder() as folder:
            assert Path(folder).parent == folder_of


def test_the_browser_has_the_project_s_environment_and_a_folder_for_its_files() -> None:
    for given in (None, {"A": "b"}):
        env = launch.in_folder({"env": given}, "/t")["env"]
        assert env == {**os.environ, **(given or {}), "TMPDIR": "/t"}


async def test_work_that_hangs_did_not_end_in_time() -> None:
    assert await launch.within(asyncio.sleep(0), 9.0)
    assert not await launch.within(asyncio.sleep(9), 0.0)


@pytest.mark.parametrize(
    ("context", "is_shown"), [("hacs-1", False), ("other", True), (None, True)]
)
def test_of_its_own_browser_scrapy_playwright_logs_nothing(
    context: str | None, is_shown: bool
) -> None:
    record = logging.makeLogRecord({} if context is None else {"context_name": context})
    assert launch._is_not_ours(record) is is_shown
