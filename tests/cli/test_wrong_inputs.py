"""What commands say to wrong arguments, settings and files: one line that names the fault."""

import logging
import shlex
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hacs_crawler.cli.app import app
from hacs_crawler.state import Estimation, State, Visit, open_store
from made_timelines import write_timelines

SETTINGS = {
    "HACS_BUGDET=5": "did you mean HACS_BUDGET?",
    "HACS_EVERY=7": "HACS_EVERY",
    "HACS_PAGES=[": "HACS_PAGES",
    "HACS_PARTS=mine": "HACS_PARTS",
    "HACS_SPIDERS=maybe": "HACS_SPIDERS",
    "HACS_STATE=redis://localhost:99999/0": "HACS_STATE",
    "HACS_WEIGHTS=2": "HACS_WEIGHTS",
    "BUDGET": "NAME=VALUE",
}
"""Settings, given to `hacs rank`, and what the line has to name; others: tests/test_config.py."""

FILES = " ".join(f"--{name} {{folder}}/{name}.csv" for name in ("pages", "updates", "captures"))
COMMANDS = {
    "no-such-command": "No such command",
    "crawl news": "--shards",
    "crawl news --shards 0": "--shards",
    "crawl scholar --shards 2 -a depth": "NAME=VALUE",
    "crawl no-such-spider --shards 2": "'no-such-spider': the folder is in no Scrapy project",
    "crawl scholar --shards 2 --dask nowhere": "nowhere",
    "plan": "--shards",
    "plan --shards 2000": "--shards",
    "new --since yesterday": "yesterday",
    "new --since 2026-13-01": "2026-13-01",
    "new --since=-7d": "must be 12h, 7d, 4w or a date such as 2026-11-01",
    "new --limit 0": "--limit",
    "new --atom {folder}/none/feed.xml": "none",
    "rank --limit 0": "--limit",
    "rank --csv {folder}": "{folder}",
    "rank --json --csv -": "--csv",
    "rank --shards x": "--shards",
    "show": "url",
    "show http://nobody.example/": "nobody.example",
    "show ftp://a.example/": "ftp://a.example/",
    "show ada": "'ada' is not a page's URL: no scheme",
    "show http://[": "http://[",
    "report -o {folder}/none/report.html": "none",
    "report -o {folder}": "must be a file in an existing folder",
    "report --limit none": "--limit",
    "import": "files",
    "import {folder}/none.cdx": "none.cdx",
    "import {folder}": "{folder}",
    "import {folder}/rubbish": "rubbish",
    "import {folder}/cut.gz": "cut.gz",
    "import {folder}/seeds.txt": "scrapy crawl scholar -a seeds=",
    "export -o {folder}/none/pages.jsonl": "none",
    "export -o {folder}": "must be a file in an existing folder",
    "export -o /dev/full": "cannot write /dev/full: No space left on device",
    "export -o {folder}/state.db": "state.db",
    "copy sqlite:///{folder}/state.db": "TO",
    "copy sqlite:///{folder}/none.db sqlite:///{folder}/copy.db": "none.db",
    "copy sqlite:///{folder}/state.db sqlite:///{folder}/state.db": "state.db",
    "copy sqlite:///{folder}/state.db mysql://localhost": "mysql:",
    "signal {folder}/none.csv": "none.csv",
    "signal {folder}/rubbish": "rubbish",
    "estimate --shards 0": "--shards",
    "experiment": "COMMAND",
    "experiment export -o {folder}/none/outcomes.jsonl": "none",
    "experiment start": "ADDRESS",
    "experiment start sqlite:///{folder}/state.db": "different addresses",
    "experiment status sqlite:///{folder}/none.db": "none.db",
    "experiment end sqlite:///{folder}/none.db": "none.db",
    "simulate --budget 5 --pages {folder}/none.csv": "--updates",
    "simulate --budget 5 --pages {folder}/none.csv --updates {folder}/none.csv": "--start",
    "simulate --budget 0": "budget",
    "simulate --budget 1,x": "x",
    "simulate --policy best": "best",
    "simulate --estimator best": "best",
    "simulate --start 2024-01-01 --end 2023-01-01": "before the end",
    "simulate --budget 1 --policy ''": "policy ''",
    "simulate --budget 1 --fade-days 0": "fade_days = 0.0: must be a number above 0",
    "simulate --budget 1 --stale-days 0": "stale_days = 0.0: must be a number above 0",
    "simulate --budget 1 --start soon": "start = 'soon': must be a day such as 2022-01-01",
    "simulate --budget 1 --csv {folder}/none/out.csv": "must be a file in an existing",
    "simulate --budget 1,0": "--budget = '1,0'",
    "evaluate --paper other": "--paper",
    f"evaluate {FILES} --until 2020-13-01": "until = '2020-13-01'",
    f"evaluate {FILES} --since 2031-01-01": "no week to evaluate",
    f"evaluate {FILES} --since 2021-06-01 --until 2021-01-01": "no week to evaluate",
    f"evaluate {FILES} --until 2019-01-01": "no week to evaluate",
    f"evaluate {FILES} --seeds seeds.txt": "--seeds and --set apply to a state",
    f"evaluate {FILES} --pages none.csv": "none.csv: cannot read",
    "evaluate --pages {folder}/rubbish": "--updates",
    "evaluate --since monday": "monday",
    "evaluate --paper singh --since 2020-01-01": "do not apply to this paper",
    "evaluate --paper singh -s HACS_STATE=sqlite:///x.db": "do not apply to this paper",
    "evaluate --paper singh --pages x.csv": "need --updates too",
    "evaluate --paper singh --pages x.csv --updates x.csv --synthetic-pages 1": "is about made-up pages",
    "interest fit {folder}/none.csv": "none.csv",
    "interest fit {folder}/rubbish": "rubbish",
    "interest seeds {folder}/none.csv": "none.csv",
    "interest import {folder}/none.log": "--",
    "interest fit --csv {folder}/none/x.csv {folder}/none.csv": "--csv",
    "interest seeds --by planet {folder}/none.csv": "--by 'planet': must be one of site, folder",
    "interest seeds -o {folder}/none/x.txt {folder}/none.csv": "-o",
    "interest import -o {folder}/x.csv --format nonsense {folder}/none.log": "--format 'nonsense'",
    "interest import -o {folder}/x.csv --site ? {folder}/none.log": "--site '?'",
    "interest import -o {folder}/x.csv {folder}/seeds.txt": "no views in",
}
"""Commands, and what the line has to name."""

READING = (
    *("new", "rank", "show http://h.edu/", "report -o report.html", "estimate"),
    *("export", "export -o backup.jsonl", "experiment export"),
)
TYPO = "-s HACS_STATE=sqlite:///{folder}/typo.db"
COMMANDS |= {f"{command} {TYPO}": "there is no state at {folder}/typo.db" for command in READING}
OTHER = "-s HACS_STATE=sqlite:///{folder}/state.db -s HACS_NAMESPACE=typo"
COMMANDS[f"plan --shards 2 {TYPO}"] = "HACS_STATE and the folder, which is in no Scrapy project"
COMMANDS |= {f"{command} {OTHER}": "no state of the namespace typo" for command in READING}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wrong")
    write_timelines(made)
    (made / "rubbish").write_bytes(bytes(range(256)) * 4)
    (made / "seeds.txt").write_text("http://a.example/\n")
    (made / "cut.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b")
    with closing(open_store(f"sqlite:///{made}/state.db", "hacs", made)) as store:
        visits = [
            Visit("http://a.example/", at, marks=frozenset([at])) for at in (10**9, 10**9 + 9)
        ]
        State(store, Estimation()).record(visits)
    return made


def check(arguments: list[str], named: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = sorted(path.name for path in folder.iterdir())
    environment = {"COLUMNS": "300", "NO_COLOR": "1"}
    environment["SCRAPY_SETTINGS_MODULE"] = (
        "hacs_crawler.settings"  # which knows the spider scholar
    )
    result = CliRunner().invoke(app, arguments, env=environment)
    errors = [one for one in caplog.records if one.levelno >= logging.ERROR]
    said = f"{result.output}\n" + "\n".join(one.getMessage() for one in errors)
    assert result.exit_code in {1, 2}, said
    assert result.exception is None or isinstance(result.exception, SystemExit), said
    assert "Traceback" not in said
    assert not any(one.exc_info or "\n" in one.getMessage() for one in errors)
    assert result.exit_code == 2 or result.output == "", "other lines are about the arguments"
    expected = named.format(folder=folder)
    assert (
        expected in said or f"'{expected.upper()}" in said
    )  # as old versions of typer name arguments
    assert len(errors) == (result.exit_code == 1), said
    assert sorted(path.name for path in folder.iterdir() if "state.db-" not in path.name) == before


@pytest.mark.parametrize(("setting", "named"), SETTINGS.items())
def test_a_wrong_setting(
    setting: str, named: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = f"-sHACS_STATE=sqlite:///{folder}/state.db"
    check(["rank", state, "-s", setting], named, folder, caplog)


@pytest.mark.parametrize(("command", "named"), COMMANDS.items())
def test_a_wrong_command(
    command: str, named: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    arguments = shlex.split(command.format(folder=folder))
    has_state = {"no-such-command", "copy", "simulate", "interest", "evaluate"}.isdisjoint(
        arguments
    )
    if has_state and arguments != ["experiment"] and TYPO not in command:
        arguments += ["-s", f"HACS_STATE=sqlite:///{folder}/state.db"]
    check(arguments, named, folder, caplog)
