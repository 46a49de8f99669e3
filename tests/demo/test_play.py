"""`scrapy crawl scholar -a seeds=demo`: a crawl of the web that comes along."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from hacs_crawler.crawl.stats import CrawlStats
from hacs_crawler.demo.play import DAYS, LastObs, Play
from hacs_crawler.demo.web import START, Web, WebPage
from hacs_crawler.utils.times import DAY

ROOT = Path(__file__).parents[2]
BUSY = WebPage("/~ada/", 2, [START + day * DAY for day in range(1, 60)], [1] * 59, [START - DAY])
QUIET = WebPage("/~bela/", 1, [], [], [START - 9 * DAY])
GONE = WebPage("/~carl/", 1, [], [], [START - 30 * DAY], gone_at=START - DAY)
WEB = Web((BUSY, QUIET, GONE))


CRAWL = ("scrapy", "crawl", "scholar", "-a", "seeds=demo")


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    own = {"SCRAPY_SETTINGS_MODULE": "hacs_crawler.settings"}
    own["http_proxy"] = "http://127.0.0.1:9"  # concerns nothing that is played
    done = partial(subprocess.run, [sys.executable, "-m", *command], cwd=folder, timeout=300)
    return done(env={**os.environ, **own}, capture_output=True, text=True, check=False)


def test_last_obs_visits_what_was_not_seen_for_longest() -> None:
    others = LastObs(WEB)
    others.visit(2, START + DAY)
    assert others.hits == 0  # of the page that is gone, and of the quiet one
    others.visit(1, START + 2 * DAY)
    assert others.hits == 1
    others.visit(2, START + 3 * DAY)
    assert others.hits == 2


def test_time_passes_until_the_last_round_which_is_today(
    capsys: pytest.CaptureFixture[str],
) -> None:
    play = Play(WEB, rounds=2)
    stats = CrawlStats(MemoryStatsCollector(get_crawler()))
    began = play.now()
    for name, number in (("visits", 2), ("gone", 1), ("updates", 1)):
        stats.count(name, number)
    assert play.turn(stats)
    assert play.now() == began + DAYS * DAY
    assert not play.turn(stats)
    output = capsys.readouterr().out
    assert "HACS found an update in 1 of 3 visits;" in output
    assert output.endswith("hacs report --open -s HACS_STATE=sqlite:///.hacs/demo.db\n")


@pytest.mark.parametrize("state", ["rubbish", "redis://127.0.0.1:1", "sqlite:////proc/state.db"])
def test_a_state_that_it_cannot_have_costs_a_line(tmp_path: Path, state: str) -> None:
    done = run(tmp_path, *CRAWL, "-s", f"HACS_STATE={state}")
    assert done.returncode == 1
    assert state.removeprefix("sqlite:///") in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_crawl_prints_what_the_readme_shows_and_leaves_a_state_that_the_report_reads(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, *CRAWL)
    assert done.returncode == 0
    assert "ERROR" not in done.stderr
    rounds = re.findall(r"^ +(\d+) +(\d+)  .*?(\d+) +█* ?(\d+)$", done.stdout, re.M)
    assert [int(day) for day, *_ in rounds[:3]] == [0, DAYS, 2 * DAYS]
    _, visits, found, others = rounds[-1]
    text = " ".join(done.stdout.split())
    assert f"HACS found an update in {found} of {visits} visits; Last-Obs" in text
    assert f"in {others} of {visits}." in text
    block = re.search(r"```text\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    assert set(block[1].splitlines()) - {"    …"} <= set(done.stdout.splitlines())
    command = done.stdout.splitlines()[-1].removeprefix("Its report: ").replace(" --open", "")
    written = run(tmp_path, *command.replace("hacs ", "hacs_crawler ").split())
    assert (tmp_path / "hacs-report.html").exists(), written.stderr
