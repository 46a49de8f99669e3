"""`scrapy crawl scholar`, run as a user runs it, on a real local site."""

import stat
from pathlib import Path

import pytest

from hacs_crawler.state.findings import all_findings
from integration_support import Project
from reliability_support import opened
from servers import Site


def test_the_first_crawl_visits_every_homepage_and_its_site_and_writes_metrics(
    site: Site, project: Project
) -> None:
    site.set("/~ada/", "pubs/", "/~bob/", "http://127.0.0.1:1/elsewhere")
    site.set("/~ada/pubs/", "deep/er.html")
    site.set("/~ada/pubs/deep/er.html", "too-deep.html")
    file = project.folder / "hacs.prom"
    crawl = project.crawl([f"{site.url}/~ada/"], HACS_METRICS=file)
    assert site.visited() == ["/~ada/", "/~ada/pubs/", "/~ada/pubs/deep/er.html"]
    assert 'hacs_visits{spider="scholar"} 3.0' in file.read_text().splitlines()
    assert (crawl.stat("hacs/visits"), crawl.stat("hacs/first_visits")) == (3, 3)
    assert crawl.stat("hacs/updates") == 0


def test_depth_counts_links_or_levels_of_the_path(site: Site, project: Project) -> None:
    site.set("/~ada/", "a/b/c.html", "news.html")
    site.set("/~ada/a/b/c.html")
    site.set("/~ada/news.html", "2.html")
    site.set("/~ada/2.html", "3.html")
    site.set("/~ada/3.html", "x/4.html")
    site.set("/~ada/x/4.html")
    project.crawl([f"{site.url}/~ada/"], "depth=path")
    near = ["/~ada/", "/~ada/2.html", "/~ada/3.html", "/~ada/news.html", "/~ada/x/4.html"]
    assert sorted(site.visited()) == near


def test_a_link_that_comes_up_on_two_pages_of_a_site_is_new_to_the_site_once(
    site: Site, project: Project
) -> None:
    pages = ("/~ada/", "/~ada/papers.html")
    seeds = [f"{site.url}{page}" for page in pages]
    for page in pages:
        site.set(page, "/~ada/old.html")
    by_site = {"HACS_UPDATES": "site"}
    project.crawl(seeds, **by_site)
    for page in pages:
        site.set(page, "/~ada/old.html", "/~ada/menu.html")
    crawl = project.crawl(seeds, "pages=1", CONCURRENT_REQUESTS=1, **by_site)
    visits = [one for one in crawl.items if one["type"] == "page"]
    assert [one["new_links"] for one in visits] == [1, 1]
    assert [one["new_to_site"] for one in visits] == [1, 0]
    assert crawl.stat("hacs/updates") == sum(one["is_update"] for one in visits) == 1
    assert (crawl.stat("hacs/new_links"), crawl.stat("hacs/links_new_to_site")) == (2, 1)
    echoes = [list(project.page(seed).echoes) for seed in seeds]
    assert sorted(map(len, echoes)) == [0, 1]


def test_new_links_are_found_reported_and_not_found_again(site: Site, project: Project) -> None:
    site.set("/~ada/", "old.pdf")
    seeds = [f"{site.url}/~ada/"]
    assert project.crawl(seeds, "pages=1").items[0]["is_first"] is True
    site.set("/~ada/", "old.pdf", "new.pdf", "https://doi.org/10.1000/182", "/cv.html")
    crawl = project.crawl(seeds, "pages=1")
    page, *publications = crawl.items
    assert (page["is_update"], page["new_links"], page["type"]) == (True, 3, "page")
    assert page["last_update"] == page["visited_at"]
    assert 0 <= page["p"] < 0.01
    assert [(one["url"], one["title"]) for one in publications] == [
        (f"{site.url}/~ada/new.pdf", "about new.pdf"),
        ("https://doi.org/10.1000/182", "about https://doi.org/10.1000/182"),
    ]
    assert (crawl.stat("hacs/updates"), crawl.stat("hacs/new_links")) == (1, 3)
    assert project.crawl(seeds).items == []
    site.set("/~ada/", "old.pdf")
    doubtful = project.crawl(seeds)
    assert "1 visit lacked a quarter or more" in doubtful.log
    assert "was not seen" not in doubtful.log
    site.set("/~ada/", "old.pdf", "new.pdf", "https://doi.org/10.1000/182", "/cv.html", "/talk")
    empty = project.crawl(seeds)
    assert (empty.items, empty.stat("hacs/new_links")) == ([], 1)
    said = "Feeds get only publications; `hacs new` lists all new links"
    assert [said in some.log for some in (crawl, empty)] == [False, True]


SEED = ["http://127.0.0.1:1/"]
OURS = "hacs_crawler.crawl.scheduler.HacsScheduler"


@pytest.mark.parametrize(
    ("seeds", "settings", "message"),
    [
        ("", {}, "scholar needs seeds"),
        ("/no/such/file", {}, "/no/such/file"),
        ("/dev/null", {}, "no usable seed"),
        ("state", {}, "the state knows no page yet"),
        (SEED, {"levl": "homepage"}, "scholar has no argument levl; did you mean level?"),
        (SEED, {"depth": "3"}, "depth = '3': must be links or path"),
        ("demo", {"level": "sites"}, "level = 'sites': must be website or homepage"),
        (SEED, {"HACS_STATE": "redis://127.0.0.1:1/0"}, "redis://127.0.0.1:1/0"),
        (SEED, {"HACS_INNER_SCHEDULER": "os.path.join"}, "HACS_INNER_SCHEDULER = 'os.path.join'"),
        (SEED, {"HACS_INNER_SCHEDULER": OURS}, f"HACS_INNER_SCHEDULER = '{OURS}'"),
        (SEED, {"HACS_POLICY": "numpy.linalg.norm"}, "policy 'numpy.linalg.norm' failed"),
    ],
)
def test_what_cannot_work_is_one_line_and_stops_the_crawl_before_its_first_request(
    seeds: str | list[str], settings: dict[str, object], message: str, project: Project
) -> None:
    arguments = [f"{name}={value}" for name, value in settings.items() if name.islower()]
    given = {name: value for name, value in settings.items() if name.isupper()}
    crawl = project.crawl(seeds, *arguments, status=1, **given)
    (error,) = crawl.errors
    assert message in error
    assert crawl.log.endswith(f" ERROR: Exit status 1: {error.partition(' ERROR: ')[2]}\n")
    assert "'finish_reason': 'hacs_error'" in crawl.log
    assert crawl.stat("downloader/request_count") == 0


def test_a_gone_page_is_marked_and_with_a_budget_left_alone_for_a_while(
    site: Site, project: Project
) -> None:
    site.pages["/~empty/"] = (200, {}, b"")
    site.pages["/~cv/"] = (200, {"Content-Type": "application/pdf"}, b"%PDF-1.7")
    site.pages["/~mute/"] = None  # the server's thread ends without an answer
    why = {"gone": "status 404", "empty": "empty", "cv": "other type", "mute": "connection closed"}
    seeds = [f"{site.url}/~{page}/" for page in why]
    crawl = project.crawl(seeds, RETRY_TIMES=0)
    assert crawl.stat("hacs/gone") == 1, "it is an answer"
    assert len([path for path in site.visited() if path != "/~mute/"]) == 3
    for page, said in why.items():
        assert f"/~{page}/ was not seen: {said}\n" in crawl.log
    assert "1 x connection closed" in crawl.log
    crawl = project.crawl(seeds[:1], HACS_BUDGET=1)
    assert "HACS visited 0 pages. 1 page is gone and waits." in crawl.log
    assert (site.visited(), crawl.stat("hacs/dropped/gone")) == ([], 1)
    assert "HACS_BUDGET = 1 applies to the seeds" in crawl.log


def test_a_redirected_seed_stays_the_seeds_page_wherever_it_leads(
    site: Site, project: Project
) -> None:
    site.set("/new/", "x.pdf")
    site.set("/fails/", status=500)
    leads = {"/a/": "/new/", "/b/": "/new/", "/c/": "/fails/", "/d/": "/fails/"}
    endless = {"/there/": "/back/", "/back/": "/there/"}
    for path, target in {**leads, **endless}.items():
        site.pages[path] = (302, {"Location": target}, b"")
    urls = [f"{site.url}{path}" for path in (*leads, "/there/")]
    crawl = project.crawl(urls, RETRY_ENABLED=False, REDIRECT_MAX_TIMES=3)
    assert (crawl.stat("hacs/visits"), crawl.stat("hacs/not_observed")) == (2, 3)
    assert crawl.stat("hacs/not_observed/unfinished") == 1
    pages = [project.page(url) for url in urls]
    found = [(len(page.visits), len(page.spells.marks), page.failures) for page in pages if page]
    assert found == [(1, 1, 0), (1, 1, 0), (0, 0, 1), (0, 0, 1), (0, 0, 1)]
    assert project.page(f"{site.url}/new/") is None


def test_a_host_that_asks_to_be_left_alone_is(site: Site, project: Project) -> None:
    site.pages["/~a/"] = (429, {"Retry-After": "3600"}, b"slow down")
    site.set("/~b/")
    crawl = project.crawl([f"{site.url}/~a/", f"{site.url}/~b/"], status=1, DOWNLOAD_DELAY=0.2)
    assert (site.visited(), crawl.stat("hacs/not_observed/refused")) == (["/~a/"], 2)
    assert "left alone for 3600 s" in crawl.log


def test_robots_txt_that_asks_for_a_moment_is_asked_again_after_it(
    site: Site, project: Project
) -> None:
    site.pages["/robots.txt"] = (429, {"Retry-After": "1"}, b"slow down")
    for name in "abc":
        site.set(f"/~{name}/")
    crawl = project.crawl([f"{site.url}/~{name}/" for name in "abc"], RETRY_TIMES=1)
    paths = [path for _, path, _ in site.requests]
    assert sorted(paths) == ["/robots.txt", "/robots.txt", "/~a/", "/~b/", "/~c/"]
    assert paths[:2] == ["/robots.txt", "/robots.txt"]
    assert min(site.times[1] - site.times[0], site.times[2] - site.times[1]) > 0.9
    assert crawl.stat("hacs/visits") == 3


def test_the_state_follows_the_project_not_the_working_folder(site: Site, project: Project) -> None:
    site.set("/~a/")
    project.state = "sqlite:///.hacs/test-of-the-project-folder.db"
    made = Path(__file__).parents[2] / ".hacs" / "test-of-the-project-folder.db"
    try:
        project.crawl([f"{site.url}/~a/"])
        assert made.exists()
        assert made.stat().st_mode & stat.S_IRUSR
    finally:
        for file in made.parent.glob("test-of-the-project-folder.db*"):
            file.unlink()


def test_a_new_citation_without_a_link_is_a_publication_of_its_page(
    site: Site, project: Project
) -> None:
    old = "<li>A. Lovelace. Sketch of the engine. Taylor's Memoirs, vol. 3, 1843-1950.</li>"
    new = "<li>A. Lovelace, C. Babbage. <i>On loops</i>. In Proceedings of Engines, 2026.</li>"
    crawls = []
    for shown in (old, new + old, old + new.replace("<i>On loops</i>.", "<b>On loops.</b>")):
        site.pages["/~ada/"] = (200, {}, f"<html><body><ul>{shown}</ul></body></html>".encode())
        crawls.append(project.crawl([f"{site.url}/~ada/"]))
    first, second, third = (crawl.items for crawl in crawls)
    assert (first, third) == ([], [])
    assert [crawl.stat("hacs/updates") for crawl in crawls] == [0, 1, 0]
    assert "HACS visited 1 page: 1 new thing on 1 page" in crawls[1].log
    (item,) = second
    assert list(item) == ["title", "page", "found_at", "url", "type"]
    assert item["title"] == "A. Lovelace, C. Babbage. On loops. In Proceedings of Engines, 2026."
    assert item["page"] == item["url"] == f"{site.url}/~ada/"
    with opened(project.state) as state:
        ((_, findings),) = all_findings(state.store)
    assert [(one.kind, one.text) for one in findings.things] == [("text", item["title"])]


def test_other_rules_of_links_make_a_baseline_of_each_page_and_no_update(
    site: Site, project: Project
) -> None:
    home = f"{site.url}/~ada/"
    site.set("/~ada/", "a.html", "b.pdf", "c.pdf")
    site.set("/~ada/a.html")
    narrow = {"HACS_LINKS_DENY": r"\.pdf$"}
    project.crawl([home], "level=homepage", **narrow)
    project.crawl([home], "level=homepage", **narrow)
    widened = project.crawl([home], "level=homepage")
    assert (widened.stat("hacs/visits"), widened.stat("hacs/updates")) == (1, 0)
    page = project.page(home)
    assert (page.baselines.tolist(), len(page.spells.marks)) == ([page.last_visit], 3)
    site.set("/~ada/", "a.html", "b.pdf", "c.pdf", "d.pdf")
    assert project.crawl([home], "level=homepage").stat("hacs/updates") == 1
