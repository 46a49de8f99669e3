"""`scrapy crawl scholar` with HACS_EXPERIMENT, on a real local site."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.links.sites import site_id
from hacs_crawler.ranking.arm_pages import start_pages
from hacs_crawler.ranking.arms import Arm, Experiment
from hacs_crawler.ranking.policies import hacs, last_obs
from hacs_crawler.state.address import open_store
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.outcome_log import SEEN, UPDATED, Label, Outcomes
from hacs_crawler.state.page import Visit
from hacs_crawler.utils.times import DAY
from integration_support import Crawl, Project
from servers import Site

NOW = int(time.time())
NAMES = [f"author{number}" for number in range(12)]
ARMS = Experiment((Arm("hacs", hacs, 0.5), Arm("last-obs", last_obs, 0.5)), "spring")
EXPERIMENT = json.dumps({"hacs": 0.5, "last-obs": 0.5, "salt": "spring"})


def url_of(site: Site, name: str) -> str:
    return f"{site.url}/~{name}/"


def arms_of(site: Site) -> dict[str, str]:
    """The arm of each author."""
    sites = np.array([site_id(url_of(site, name)) for name in NAMES])
    return {name: ARMS.arms[arm].name for name, arm in zip(NAMES, ARMS.assign(sites), strict=True)}


def open_state_of(project: Project) -> State:
    return State(open_store(project.state, "hacs", Path()), Estimation())


def outcomes_of(project: Project) -> tuple[Outcomes, dict[int, Label]]:
    state = open_state_of(project)
    outcomes = state.outcomes()
    labels = {int(number): state.label(int(number)) for number in set(outcomes["label"])}
    state.store.close()
    assert None not in labels.values()
    return outcomes, labels  # type: ignore[return-value]


@pytest.fixture
def crawl_authors(
    site: Site, project: Project, write_state: Callable[..., None]
) -> Callable[..., Crawl]:
    """Crawls twelve authors' homepages, each known by two visits, the first author's the oldest."""
    for number, name in enumerate(NAMES):
        site.set(f"/~{name}/", f"/~{name}/old.html", f"/~{name}/new.html")
        links = frozenset({1, 2})
        days = (60 - number, 30 - number)
        url = url_of(site, name)
        write_state(*(Visit(url, NOW - day * DAY, marks=links) for day in days))

    def crawl(*arguments: str, **settings: object) -> Crawl:
        seeds = [url_of(site, name) for name in NAMES]
        return project.crawl(seeds, *arguments, HACS_EXPERIMENT=EXPERIMENT, **settings)

    return crawl


def test_each_arm_visits_its_own_sites_within_what_belongs_to_its_pages(
    site: Site, project: Project, crawl_authors: Callable[..., Crawl]
) -> None:
    # one at a time: with several in the downloader, their order is not the scheduler's any more
    crawl = crawl_authors("-a", "level=homepage", HACS_BUDGET=4, CONCURRENT_REQUESTS=1)
    arms = arms_of(site)
    visited = [path.strip("/~") for path in site.visited()]
    by_arm = {arm: [name for name in visited if arms[name] == arm] for arm in ("hacs", "last-obs")}
    pages = tuple(list(arms.values()).count(arm) for arm in ("hacs", "last-obs"))
    hacs_visits, last_obs_visits = ARMS.budgets(4, pages)
    assert len(by_arm["hacs"]) == hacs_visits
    # the oldest visits of the arm's own sites first
    own = [name for name in NAMES if arms[name] == "last-obs"]
    assert by_arm["last-obs"] == own[:last_obs_visits]
    assert crawl.stat("hacs/experiment/hacs/visits") == hacs_visits
    assert crawl.stat("hacs/experiment/last-obs/visits") == last_obs_visits
    state = open_state_of(project)
    experiment = Config.from_settings(Settings({"HACS_EXPERIMENT": EXPERIMENT})).ranking
    assert start_pages(state, experiment.experiment) == pages
    state.store.close()


def test_every_visit_of_a_seed_leaves_an_outcome_record(
    site: Site, project: Project, crawl_authors: Callable[..., Crawl]
) -> None:
    gone, broken = NAMES[0], NAMES[1]
    site.pages[f"/~{gone}/"] = (404, {}, b"")
    site.pages[f"/~{broken}/"] = (500, {}, b"")
    crawl = crawl_authors("-a", "level=homepage", RETRY_ENABLED=False)
    outcomes, labels = outcomes_of(project)
    arms = arms_of(site)
    ids = {page_id_of(url_of(site, name)): name for name in NAMES}
    assert sorted(ids[page] for page in outcomes["page_id"].tolist()) == sorted(NAMES)
    assert len(set(outcomes["run"])) == 1
    for one in outcomes:
        name = ids[int(one["page_id"])]
        label = labels[int(one["label"])]
        assert (label.arm, label.policy) == (arms[name], arms[name])
        assert label.experiment == ARMS.number
        assert one["site"] == site_id(url_of(site, name))
        assert one["days_since_visit"] == pytest.approx(30 - NAMES.index(name), abs=0.1)
        assert 0 < one["p"] < 1
        is_seen = name not in {gone, broken}
        assert one["flags"] == (SEEN | UPDATED if is_seen else 0)
        assert one["new_links"] == (2 if is_seen else 0)
        assert (one["bytes"] > 100) == is_seen
    assert crawl.stat("hacs/updates") == 10


def test_what_follows_from_a_seed_belongs_to_its_arm_and_leaves_no_record(
    site: Site, project: Project, crawl_authors: Callable[..., Crawl]
) -> None:
    for name in NAMES:
        site.set(f"/~{name}/old.html")
    crawl = crawl_authors(HACS_BUDGET=4)
    assert len(outcomes_of(project)[0]) == 4
    # each seed and the one page below it that exists; the other is gone
    visits = (crawl.stat(f"hacs/experiment/{arm.name}/visits") for arm in ARMS.arms)
    assert sum(visits) == 8


def test_without_an_experiment_visits_are_recorded_under_the_policy(
    site: Site, project: Project
) -> None:
    site.set("/~ada/", "new.html")
    project.crawl([f"{site.url}/~ada/"], "-a", "level=homepage", HACS_POLICY="random")
    (one,), labels = outcomes_of(project)
    (label,) = labels.values()
    assert (label.experiment, label.arm, label.policy) == (0, "", "random")
    assert one["days_since_visit"] == np.inf
    assert (one["p"], one["flags"]) == (1.0, SEEN)
