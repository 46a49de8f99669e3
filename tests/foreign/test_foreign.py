"""Spiders of public projects do the same with the add-on as without: `tox -e foreign`.

Nothing of them is in this repository. They are read from the folder that HACS_TESTS_FOREIGN names, which
has one for each collection, or fetched into it. Spiders whose modules need what is not installed here,
or a network, are left out.
"""

import json
import logging
import os
import random
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import pytest
from parsel import Selector
from scrapy import Request

from foreign.collections import COLLECTIONS, Collection
from foreign.compare import Results
from foreign.crawl import Job, Now, Seen, note_headers
from foreign.web import Web, text_for

pytestmark = pytest.mark.slow

FOLDER = os.environ.get("HACS_TESTS_FOREIGN")
MOST_SPIDERS = int(os.environ.get("HACS_TESTS_FOREIGN_SPIDERS", "60"))
MODES = ("add-on", "all")
SEED = int(os.environ.get("HACS_TESTS_FOREIGN_SEED", "7"))
SPIDER = """
    def parse(self, response):
        for link in response.css("div.store > a.more::attr(href)").getall():
            yield response.follow(link)
        yield {"city": response.xpath('//span[@class="city"]/text()').get()}
"""
TRIED_WITH_OTHER_REACTORS = 5


@pytest.mark.parametrize("name", COLLECTIONS)
def test_spiders_of_other_people_do_what_they_did(name: str, tmp_path: Path) -> None:
    if FOLDER is None:
        pytest.skip("HACS_TESTS_FOREIGN names no folder")
    folder = Path(FOLDER, name)
    if not folder.exists():
        _fetch(COLLECTIONS[name], folder)
    listed = tmp_path / "spiders"
    _run(name, folder, Path("list"), listed)
    names = listed.read_text().splitlines()
    names = random.Random(SEED).sample(names, min(len(names), MOST_SPIDERS))
    jobs = [Job(spider, mode) for spider in names for mode in ("plain", *MODES)]
    jobs += [
        Job(spider, mode, reactor)
        for spider in names[:TRIED_WITH_OTHER_REACTORS]
        for reactor in ("epoll", "none")
        for mode in ("plain", "add-on")
    ]
    results = Results()
    _crawl(name, folder, jobs, results, tmp_path)
    _crawl(name, folder, results.controls(MODES), results, tmp_path)
    logging.getLogger(__name__).info("%s: %s", name, results.summary(MODES))
    assert results.unexplained(MODES) == []
    assert results.busy(), "crawls that all end at once, for want of a package, show nothing"


def _fetch(collection: Collection, folder: Path) -> None:
    url = f"https://github.com/{collection.repository}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as new:  # none is left half fetched
        try:
            _git(new, "init")
            _git(new, "fetch", "--depth=1", url, collection.commit)
            _git(new, "checkout", "FETCH_HEAD")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"{url} cannot be fetched: {error.stderr.strip()}")
        Path(new).rename(folder)


def _git(folder: str | Path, *command: str) -> str:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    git = ("git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=n@a.example")
    done = subprocess.run(
        (*git, *command), env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _crawl(name: str, folder: Path, jobs: list[Job], results: Results, tmp_path: Path) -> None:
    given, results_file = tmp_path / "jobs", tmp_path / "results"
    given.write_text("".join(f"{json.dumps(asdict(job))}\n" for job in jobs))
    results_file.write_text("")
    if jobs:
        _run(name, folder, given, results_file)
    results.read(results_file)


def _run(name: str, folder: Path, jobs: Path, results_file: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", "from foreign.crawl import main; main()"]
    own = {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONHASHSEED": "0"}
    command += [name, str(folder.absolute()), str(jobs), str(results_file)]
    with (results_file.parent / "errors").open("w+") as errors:
        done = subprocess.run(
            command, env={**os.environ, **own}, cwd=results_file.parent, stderr=errors, check=False
        )
        errors.seek(0)
        assert done.returncode == 0, errors.read()


def test_a_collection_is_fetched_at_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = tmp_path / "there" / "owner" / "name", tmp_path / "here" / "name"
    there.mkdir(parents=True)
    _git(there, "init")
    for text in ("at that time", "since then"):
        (there / "file").write_text(text)
        _git(there, "add", "file")
        _git(there, "commit", "-m", text)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{tmp_path}/there/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/")
    commit = _git(there, "rev-parse", "HEAD~")
    _fetch(Collection(repository="owner/name", commit=commit), here)
    assert (here / "file").read_text() == "at that time"
    with pytest.raises(pytest.skip.Exception, match="owner/none cannot be fetched"):
        _fetch(Collection(repository="owner/none", commit=commit), here.with_name("none"))
    assert [path.name for path in here.parent.iterdir()] == ["name"]


def test_cookies_are_noted_of_all_requests_that_follow_an_answer() -> None:
    Now.seen = Seen(Job("spider", "plain"), 0)
    for meta in ({}, {"depth": 1}, {"redirect_urls": ["http://a.example/"]}):
        note_headers(Request("http://a.example/b", headers={"Cookie": "a=1"}, meta=meta))
    assert Now.seen.cookies == ["GET http://a.example/b Cookie: b'a=1'"] * 2


@pytest.mark.parametrize(
    "pattern",
    [r"/stores/[\w-]+/$", r"/[a-z]{2}/(shop|store)/\d+-.*\.html", r"^https://a\.b/x", "x?"],
)
def test_pages_have_links_that_rules_follow(pattern: str) -> None:
    assert re.search(pattern, text_for(pattern, 3))


def test_pages_have_what_selectors_look_for_and_are_the_same_in_each_crawl() -> None:
    request = Request("http://a.example/stores")
    pages = [Web(SPIDER, [r"/stores/\d+"], 0).answer(request) for _ in range(2)]
    assert pages[0].body == pages[1].body
    page = Selector(pages[0].text)
    links = page.css("div.store > a.more::attr(href)").getall()
    assert links
    assert all(re.search(r"/stores/\d+", link) for link in links)
    assert page.xpath('//span[@class="city"]/text()').get()
    later = Web(SPIDER, [r"/stores/\d+"], 1).answer(request)
    assert later.body != pages[0].body, "pages gain links from round to round"
