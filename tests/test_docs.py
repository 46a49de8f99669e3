"""The documentation names what the code has, and nothing else."""

import ast
import inspect
import json
import re
import tomllib
from dataclasses import fields
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.main import get_command

import settings_page
from architecture import FLOORS
from hacs_crawler.cli.app import app
from hacs_crawler.crawl.meta import KEY
from hacs_crawler.harvest.journal import Journal
from hacs_crawler.items import NewPublication, PageVisit, SeedHistory
from hacs_crawler.lab.simulation.baselines import BASELINES
from hacs_crawler.lab.simulation.simulation import Score
from hacs_crawler.lab.simulation.tournament import Standing
from hacs_crawler.outcome import Outcome
from hacs_crawler.ranking.demands import EVERY_KEY, WEIGHT_KEY
from hacs_crawler.ranking.policies import POLICIES
from hacs_crawler.ranking.selection import Dropped
from hacs_crawler.state.jsonl import to_line
from hacs_crawler.state.page import Page

ROOT = Path(__file__).parents[1]
ABOUT_THE_CODE = ("docs/architecture.md", "CONTRIBUTING.md")
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    ROOT / "benchmarks" / "README.md",
]
NAVIGATION = ROOT / "docs" / "index.md"
SOURCES = {
    path: path.read_text()
    for folder in ("hacs_crawler", "middlewares", "spiders")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
TEST_COMMAND = "pip install -r requirements-test.txt && pytest"
CRAWL_COMMAND = "pip install -r requirements.txt && scrapy crawl scholar -a seeds=demo"
SCRAPYS_OWN_META = {
    *("is_start_request", "depth", "download_slot", "dont_cache", "dont_retry", "rule"),
    *("download_latency", "proxy", "dont_redirect", "dont_obey_robotstxt", "redirect_urls"),
    "retry_times",
}


def in_code(pattern: str) -> set[str]:
    """All that a pattern's groups find in the sources; a pattern that finds nothing is outdated."""
    matches = [match for text in SOURCES.values() for match in re.finditer(pattern, text)]
    assert matches, pattern
    return {group for match in matches for group in match.groups() if group is not None}


def section(page: str, heading: str) -> str:
    text = (ROOT / page).read_text()
    level = heading.split(maxsplit=1)[0]
    body = text.split(f"\n{heading}\n", 1)[1]
    return re.split(rf"\n#{{1,{len(level)}}} ", body)[0]


def first_column(page: str, heading: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", section(page, heading), re.MULTILINE)


def stats_in_code() -> set[str]:
    counted = in_code(r'(?:stats|self)\.(?:count|count_extra|gauge)\(\s*f?"([a-z][a-z_/{}.]+)"')
    families = {name for name in counted if "{" in name}
    archived = {"dropped/{kind}", "mementos_failed/{memento.problem}", "seeds/{status}", "{name}"}
    others = {"dropped/{reason}", "not_observed/{reason}", "parts/failed/{name}"}
    assert families == {*map("archive/".__add__, archived), *others}
    dropped = {field.name for field in fields(Dropped)} | in_code(r'\bdrop\([^)]*, "(\w+)"\)')
    unseen = (
        *(r'count_not_observed\("(\w+)",', r'\(None, "(\w+)"\)', r'ShownMarks\(None, "(\w+)"\)'),
        *(r'reason = "(\w+)" if .* else "(\w+)"', r'mark_unseen\(request, "(\w+)"\)'),
        r'(?m)reason = "(\w+)"$|OTHER_TYPE: Final = "(\w+)"',
        r'(?m)^        "(nothing_shown)",$',
    )
    not_observed = set[str]().union(*map(in_code, unseen))
    assert "first_visits" in counted
    assert isinstance(Journal.status, property)
    statuses = set(re.findall(r'[^.]"(\w+)"', inspect.getsource(Journal.status.fget)))
    plain = counted - families
    names = {
        *(name for name in plain if not name.startswith("archive/mementos_failed/")),
        *(f"dropped/{reason}" for reason in dropped),
        *(f"not_observed/{reason}" for reason in not_observed),
        *(f"archive/{name}" for name in in_code(r'self\._count\("(\w+)"\)')),
        *(f"archive/seeds/{status}" for status in statuses | {"unanswered"}),
        *("parts/failed/<name>", "archive/dropped/<kind>", "archive/mementos_failed/<reason>"),
    }
    return {f"hacs/{name}" for name in names}


def test_every_stat_is_documented_once_and_every_documented_stat_exists() -> None:
    assert sorted(first_column("docs/reference.md", "## Stats")) == sorted(stats_in_code())


def test_the_kinds_of_rows_left_out_are_documented() -> None:
    archive = "\n".join(
        text
        for path, text in SOURCES.items()
        if path.parent.name == "archive" or path.parts[-2:] == ("harvest", "query.py")
    )
    kinds = set(re.findall(r'dropped\["(\w+)"\]', archive))
    for function in ("key_of", "_capture", "_problem", "problem"):
        for body in re.findall(rf"def {function}\(.*?(?=\n\n\S|\n    def )", archive, re.DOTALL):
            returned = re.findall(r"return (.*)", body)
            kinds |= {kind for line in returned for kind in re.findall(r'"([a-z_]+)"', line)}
    assert set(first_column("docs/archives.md", "### Rows that are not captures")) == kinds


def test_every_meta_key_is_documented_and_every_documented_key_exists() -> None:
    used = in_code(r'meta\.(?:get|setdefault|pop)\("([\w.]+)"') | in_code(r'meta\["([\w.]+)"\]')
    used |= {KEY, WEIGHT_KEY, EVERY_KEY}
    assert set(first_column("docs/reference.md", "## Meta keys")) == used - SCRAPYS_OWN_META


def test_the_outcomes_fields_are_documented() -> None:
    named = {*dir(Outcome), *(field.name for field in fields(Outcome))}
    public = {name for name in named if not name.startswith("_")}
    assert set(first_column("docs/reference.md", "## Outcome")) == public


@pytest.mark.parametrize("item", [PageVisit, NewPublication, SeedHistory])
def test_the_items_fields_are_documented(
    item: type[PageVisit | NewPublication | SeedHistory],
) -> None:
    documented = first_column("docs/reference.md", f"### {item.__name__}")
    assert documented == [field.name for field in fields(item)]


def test_the_keys_of_an_export_are_documented_in_their_order() -> None:
    documented = first_column("docs/state.md", "## Lines of an export")
    assert documented == list(json.loads(to_line(Page("http://example.edu/"))))


def test_every_extra_is_documented() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    documented = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/tutorial.md").read_text(), re.M)
    assert {*documented} == project["optional-dependencies"].keys() - {"test"}


def test_every_policy_is_documented() -> None:
    assert set(POLICIES) <= set(
        re.findall(r"`([a-z-]+)`", section("docs/settings.md", "## HACS_POLICY"))
    )
    page = (ROOT / "docs" / "policies.md").read_text()
    order = dict.fromkeys(["hacs", "balanced", "interest", "hacs-without-signals", *POLICIES])
    assert re.findall(r"^\| [^|]+ \| `([a-z-]+)` \|", page, re.MULTILINE) == list(order)


def test_every_command_is_documented() -> None:
    documented = first_column("docs/commands.md", "## All commands")
    assert sorted(documented) == sorted(f"hacs {name}" for name in get_command(app).commands)


def test_no_help_and_no_message_names_a_file_of_the_checkout() -> None:
    """A wheel has no docs/: a help text is a docstring in `cli`, a message any other string."""
    naming = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, source in SOURCES.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if "docs/" in node.value
        and ("cli" in path.parts or '"""' not in ast.get_source_segment(source, node))
    }
    assert naming == set()


def test_what_a_simulation_reports_and_simulates_is_documented() -> None:
    score = Score("", 0, 0, None, 0, 0, 0, None, 1.0)
    documented = first_column("docs/evaluation.md", "### The report")
    last = re.findall(
        r"^\| (`hits_vs_.*`) \|", section("docs/evaluation.md", "### The report"), re.M
    )
    assert documented + last[0].replace("`", "").split(", ") == list(
        Standing(1, score, 1, 1).as_row()
    )
    others = first_column("docs/evaluation.md", "### What can be simulated")
    assert {*others, *POLICIES} == set(BASELINES)


def test_the_reference_of_settings_is_that_of_their_declarations() -> None:
    """If not: `python docs/settings_page.py` writes it anew."""
    assert settings_page.PAGE.read_text() == settings_page.page()


def test_the_navigation_leads_to_every_page_once() -> None:
    listed = re.findall(r"^- \[[^]]+\]\(([^)#]+)\)", NAVIGATION.read_text(), re.M)
    assert sorted((NAVIGATION.parent / place).resolve() for place in listed) == sorted(
        page
        for page in PAGES
        if page != NAVIGATION and (page.parent.name != "examples" or page.name == "README.md")
    )


def test_the_readme_has_the_two_commands_and_ci_runs_that_of_the_tests() -> None:
    lines = [line.strip() for line in (ROOT / "README.md").read_text().splitlines()]
    assert CRAWL_COMMAND in lines
    assert TEST_COMMAND in lines
    ci = ROOT / ".ci" / "run"
    if ci.exists():
        run = [line.replace(" --quiet", "").strip() for line in ci.read_text().splitlines()]
        assert TEST_COMMAND in run


@pytest.mark.parametrize("page", ABOUT_THE_CODE)
def test_what_is_said_of_a_file_is_said_of_one_that_exists(page: str) -> None:
    named = set(re.findall(r"`([\w./-]+(?:/|\.\w+))`", (ROOT / page).read_text()))
    files = {
        name for name in named if "/" in name or name.endswith((".md", ".py", ".toml", ".ini"))
    }
    assert len(files) > 10
    inside = (ROOT, ROOT / "hacs_crawler")
    assert [name for name in files if not any((folder / name).exists() for folder in inside)] == []


def test_modules_that_documents_name_exist() -> None:
    text = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    modules = set(re.findall(r"hacs_crawler/[\w/]+\.py", text))
    assert modules
    assert [name for name in sorted(modules) if not (ROOT / name).exists()] == []


def test_every_folder_is_described() -> None:
    assert first_column("docs/architecture.md", "## Folders") == list(chain(*FLOORS))


@pytest.mark.parametrize("page", ABOUT_THE_CODE)
def test_what_is_said_to_be_in_a_file_is_there(page: str) -> None:
    place = re.compile(r"`(\w+)`(?: of| in)\s+`((?:hacs_crawler|tests)/[\w/]+\.\w+)`")
    found = place.findall((ROOT / page).read_text())
    assert len(found) > 3
    for name, file in found:
        assert re.search(rf"\b{name}\b", (ROOT / file).read_text()), (name, file)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    for target in targets:
        parts = urlsplit(target)
        if parts.scheme:
            continue
        file = page.parent / parts.path if parts.path else page
        assert file.exists(), target
        if parts.fragment:
            assert parts.fragment in anchors(file), target


def anchors(page: Path) -> set[str]:
    """The headings' anchors, formed as GitHub does."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
