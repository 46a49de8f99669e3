"""URLs that forge lines, or hold logins: in a state, and from a redirect."""

import logging
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hacs_crawler.cli.app import app
from hacs_crawler.links import page_id_of
from hacs_crawler.report.numbers import history_of
from hacs_crawler.state import Page, Visit, open_store
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.rows import encode_row
from hacs_crawler.state.store import Change
from integration_support import Project
from servers import Site

SECRET = "s3cr3t"
FORGED = "http://forged.edu/\nERROR: \x1b[31mall is lost\u202e"
WITH_LOGIN = f"http://carla:{SECRET}@h.edu/"
COMMANDS = {
    "rank": ["rank"],
    "rank --json": ["rank", "--json"],
    "show": ["show", "http://h.edu/"],
    "show of a stranger": ["show", "http://h.edu/other"],
    "export": ["export"],
    "report": ["report", "-o", "report.html"],
    "estimate": ["estimate"],
}


def as_kept(url: str) -> Page:
    page = Page("", version=1)
    page.url = url  # as others may write it
    return page


def keep(state: str, url: str) -> None:
    body = encode_page(as_kept(url))
    with closing(open_store(state, "hacs", Path())) as store:
        assert not store.write([Change(page_id_of(url), 0, body, encode_row(as_kept(url)))])


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_no_command_shows_a_login_or_a_raw_control_character_of_a_state(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "hacs_crawler.settings")
    monkeypatch.chdir(tmp_path)
    state = f"sqlite:///{tmp_path}/state.db"
    for url in (FORGED, WITH_LOGIN):
        keep(state, url)
    with caplog.at_level(logging.INFO):
        found = CliRunner().invoke(app, [*arguments, "-s", f"HACS_STATE={state}"])
    shown = found.output + "\n".join(caplog.messages)
    written = "".join(path.read_text() for path in tmp_path.glob("*.html"))
    assert SECRET not in shown + written
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\nERROR: " not in shown


@pytest.mark.parametrize("made", [Page, lambda url: Visit(url, 1)], ids=["page", "visit"])
def test_neither_a_page_nor_a_visit_keeps_a_login(made: Callable[[str], Page | Visit]) -> None:
    assert made(WITH_LOGIN).url == "http://h.edu/"


def test_a_redirect_shows_its_password_in_no_line_of_the_spider(
    site: Site, project: Project
) -> None:
    place = site.url.removeprefix("http://")
    site.set("/", status=302, Location=f"http://carla:{SECRET}@{place}/gone")
    crawl = project.crawl([f"{site.url}/"], status=1, LOG_LEVEL="WARNING")
    lines = [line for line in crawl.log.splitlines() if "[scholar]" in line]
    assert any("was not seen" in line for line in lines)
    assert not any(SECRET in line for line in lines)  # Scrapy's own lines show it


def test_a_url_cannot_turn_the_direction_of_writing_of_the_report() -> None:
    url = "http://h.edu/\u202efdp.exe\u0085"
    assert history_of(Page(url))["url"] == "http://h.edu/\\u202efdp.exe\\x85"
