"""The projects of examples/ are run as a user would, on a local site in place of theirs."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import forks
from browser import CHROMIUM
from integration_support import QUICK, ROOT, Crawl
from servers import Site, redis_server

EXAMPLES = ROOT / "examples"
DAY = 86_400


class Example:
    """A copy of an example's project, which asks a local site instead of those that it names."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder / name
        shutil.copytree(EXAMPLES / name, self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        (self.settings,) = self.folder.glob("*/settings.py")
        self.package = self.settings.parent.name
        shutil.copy(ROOT / "tests" / "clocks.py", self.settings.parent)

    def instead(self, url: str, local: str) -> None:
        """Have the spider ask a local address."""
        file = self.settings.with_name("spiders.py")
        assert url in file.read_text()
        file.write_text(file.read_text().replace(url, local))

    def run(
        self,
        program: str,
        *arguments: str,
        days: float = 0.0,
        options: tuple[str, ...] = (),
        **more: str,
    ) -> Crawl:
        """Run `scrapy` or `hacs` in the project, some days from now."""
        named = (f"HACS_CLOCK={self.package}.clocks.later", *options)
        command = (*arguments, *(part for one in named for part in ("-s", one)))
        environment = {**os.environ, "HACS_TESTS_LATER": str(days * DAY), **more}
        done = forks.run(program, command, self.folder, environment=environment)
        return Crawl(done.returncode, done.stderr.decode(), done.stdout.decode())

    def crawl(self, *settings: str, days: float = 0.0, **more: str) -> Crawl:
        """Run its spider, without the delays that other people's servers are owed."""
        arguments = ("crawl", self.package, "-O", "-:json")
        return self.run("scrapy", *arguments, days=days, options=(*QUICK, *settings), **more)


ROW = re.compile(r"^\| (?:`(\w+)/`)? ?\| .* \| `([^|]+)` \|$", re.MULTILINE)
"""A row of the README: its folder, where it is another than that of the row before, and its command."""


def commands() -> list[tuple[str, str]]:
    """Folder and command of each row."""
    folder, found = "", []
    for name, command in ROW.findall((EXAMPLES / "README.md").read_text()):
        folder = name or folder
        found.append((folder, command))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "command"), [row for row in commands() if "offline.py" in row[1]]
)
def test_the_readmes_command_crawls_without_a_network_and_finds_news_the_second_time(
    tmp_path: Path, folder: str, command: str
) -> None:
    """As it stands there, in a clean copy; but a browser run by root needs a word more."""
    if "PLAYWRIGHT" in command:
        if CHROMIUM is None:
            pytest.skip("no Chromium")
        browser = f'{{"executable_path": "{CHROMIUM}", "args": ["--no-sandbox", '
        command = command.replace('{"args": [', browser)
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns(".hacs"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for stat in ("first_visits", "updates"):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path / "examples" / folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        run = Crawl(done.returncode, done.stderr, done.stdout)
        assert (run.stat("log_count/ERROR"), run.stat("log_count/WARNING")) == (0, 0), run.log
        assert run.stat(f"hacs/{stat}") > 0, run.log
        assert run.stat("downloader/exception_count") == 0


def test_each_example_has_a_command() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - {"__pycache__"}
    assert {folder for folder, _ in commands()} == folders


@pytest.fixture
def example(tmp_path: Path) -> Callable[[str], Example]:
    return lambda name: Example(name, tmp_path)


@pytest.mark.slow
def test_the_readmes_spider_is_the_minimal_project(example: Callable[[str], Example]) -> None:
    spider = (EXAMPLES / "minimal" / "news" / "spiders.py").read_text()
    settings = (EXAMPLES / "minimal" / "news" / "settings.py").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    assert spider in blocks
    assert any(block in settings for block in blocks)


def crawls_of_two_pages(example: Example, site: Site) -> tuple[Crawl, Crawl]:
    """Two days' crawls of the pages of which most examples are, one of which gains a link."""
    example.instead("https://quotes.toscrape.com", site.url)
    example.instead("https://books.toscrape.com/", f"{site.url}/more")
    site.set("/", "/old")
    site.set("/more", "/old")
    first = example.crawl()
    site.set("/", "/old", "/new")
    return first, example.crawl(days=1)


@pytest.mark.slow
def test_the_minimal_project_yields_what_is_new(
    example: Callable[[str], Example], site: Site
) -> None:
    minimal = example("minimal")
    first, second = crawls_of_two_pages(minimal, site)
    assert first.items == []
    assert second.items == [{"link": f"{site.url}/new", "page": f"{site.url}/"}]
    rows = minimal.run("hacs", "rank", "--json", days=2).output.splitlines()
    assert [json.loads(row)["url"] for row in rows] == [f"{site.url}/", f"{site.url}/more"]


WATCHED = {
    "prices": (
        "https://books.toscrape.com/",
        '<article class="product_pod"><h3><a title="A book"></a></h3>'
        '<p class="price_color">{}</p></article>',
    ),
    "jobs": (
        "https://realpython.github.io/fake-jobs/",
        '<div class="card-content"><h2>Cook {}</h2><h3>A ship</h3><time>day {day}</time></div>',
    ),
    "stock": (
        "https://dummyjson.com/products?limit=30",
        '{{"products": [{{"id": 1, "stock": {}}}]}}',
    ),
    "terms": (
        "https://www.gnu.org/licenses/gpl-faq.html",
        "<main><h1>Terms</h1><p>You may use this in so many ways, as there are {}.</p></main>",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spider", "expected"),
    [
        ("prices", [1, 1, 1, 0]),
        ("jobs", [1, 1, 0, 0]),
        ("stock", [0, 1, 1, 0]),
        ("terms", [0, 1, 1, 0]),
    ],
)
def test_what_is_watched_makes_the_news(
    example: Callable[[str], Example], site: Site, spider: str, expected: list[int]
) -> None:
    """Each day's page: 5, then 6, then 5 again, and once more."""
    watch = example("watch")
    url, page = WATCHED[spider]
    watch.instead(url, f"{site.url}/page")
    kind = "application/json" if spider == "stock" else "text/html"
    found = []
    for day, number in enumerate((5, 6, 5, 5)):
        site.pages["/page"] = (200, {"Content-Type": kind}, page.format(number, day=day).encode())
        command = ("crawl", spider, "-O", "-:json")
        found.append(len(watch.run("scrapy", *command, days=day, options=QUICK).items))
    assert found == expected


@pytest.mark.slow
def test_a_part_of_ones_own_writes_each_update(
    example: Callable[[str], Example], site: Site
) -> None:
    gazette = example("part")
    crawls_of_two_pages(gazette, site)
    (line,) = (gazette.folder / "updates.jsonl").read_text().splitlines()
    assert json.loads(line).items() >= {"url": f"{site.url}/", "new_links": 1}.items()


@pytest.mark.slow
def test_the_crawl_spider_visits_its_books_again_directly(
    example: Callable[[str], Example], site: Site
) -> None:
    books = example("crawlspider")
    books.instead("https://books.toscrape.com/", f"{site.url}/")
    named = "".join(f'<article><h3><a href="/book/{n}">book</a></h3></article>' for n in (1, 2))
    listing = f'<html><body>{named}<p class="next"><a href="/page/2">on</a></p></body></html>'
    site.set("/")
    site.pages["/"] = (200, {}, listing.encode())
    for path in ("/page/2", "/book/1", "/book/2"):
        site.set(path, "/")
    first = books.crawl()
    assert sorted(item["url"] for item in first.items) == [f"{site.url}/book/{n}" for n in (1, 2)]
    assert all(item["is_first"] for item in first.items)
    site.set("/book/2", "/", "/author")
    second = books.crawl(days=1)
    assert second.stat("hacs/revisits") == 4
    assert [item["url"] for item in second.items if item["is_update"]] == [f"{site.url}/book/2"]


@pytest.mark.slow
def test_the_sitemap_spider_visits_the_likeliest_pages_of_a_sitemap(
    example: Callable[[str], Example], site: Site
) -> None:
    pages = example("sitemap")
    pages.instead("https://www.example.org", site.url)
    names = [f"/page/{number}" for number in range(6)]
    urls = "".join(f"<url><loc>{site.url}{name}</loc></url>" for name in names)
    sitemap = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
    site.set("/sitemap.xml")
    site.pages["/sitemap.xml"] = (200, {"Content-Type": "application/xml"}, sitemap.encode())
    for day in range(4):
        for name in names:
            news = [f"{name}/{one}" for one in range(day)] if name == "/page/3" else []
            site.set(name, "/", *news)
        found = pages.crawl(days=day).items
        assert found == ([{"url": f"{site.url}/page/3", "new_links": 1}] if day else [])
    site.visited()
    assert pages.crawl("HACS_BUDGET=1", days=5).stat("hacs/visits") == 1
    assert site.visited() == ["/sitemap.xml", "/page/3"]


@pytest.mark.slow
def test_the_crawl_in_containers_keeps_its_state_in_redis(
    example: Callable[[str], Example], tmp_path: Path
) -> None:
    crawl = example("compose")
    with Site() as site, redis_server(tmp_path) as port:
        site.set("/~ada/")
        (crawl.folder / "seeds.txt").write_text(f"{site.url}/~ada/")
        more = {"HACS_STATE": f"redis://127.0.0.1:{port}/0"}
        command = ("crawl", "scholar", "-a", "seeds=seeds.txt")
        assert crawl.run("scrapy", *command, options=QUICK, **more).stat("hacs/first_visits") == 1
        again = crawl.run("scrapy", *command, options=QUICK, days=1, **more)
        assert (again.stat("hacs/visits"), again.stat("hacs/first_visits")) == (1, 0)
