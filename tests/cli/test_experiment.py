"""`hacs experiment` and the import of what it exports, as a user runs them."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from cli_support import hacs, opened
from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.state import OUTCOME, SEEN, UPDATED, Label, Outcomes, Visit
from hacs_crawler.utils.times import DAY

START = 1_700_000_000 // DAY * DAY
URLS = [f"https://uni.example/~author-{number}/" for number in range(40)]
LABELS = [Label(name, "bayes", float("inf"), "visit", True) for name in ("hacs", "last-obs")]
DOCS = Path(__file__).parents[2] / "docs" / "commands.md"


def recorded(days: int = 20) -> Outcomes:
    """Daily visits of a page a site, by two policies in turn."""
    random = np.random.default_rng(0)
    found = np.zeros(len(URLS) * days, OUTCOME)
    found["page_id"] = np.tile([page_id_of(url) for url in URLS], days)
    found["site"] = np.tile([site_id(url) for url in URLS], days)
    found["at"] = START + np.repeat(np.arange(days), len(URLS)) * DAY + 5
    found["run"] = found["at"] - 5
    policies = np.arange(len(found)) % 2
    found["label"] = np.array([label.number for label in LABELS])[policies]
    found["p"] = 0.1
    found["days_since_visit"] = np.where(found["at"] < START + DAY, np.inf, 1.0)
    updated = random.random(len(found)) < np.where(policies == 0, 0.6, 0.2)
    found["flags"] = SEEN | UPDATED * (updated & np.isfinite(found["days_since_visit"]))
    return found


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A folder with a state of recorded visits."""
    folder = tmp_path / "full"
    folder.mkdir()
    with opened(folder) as state:
        state.record([Visit(url, START + DAY, marks=frozenset({1})) for url in URLS])
        for label in LABELS:
            state.keep_label(label)
        state.store.add_outcomes(recorded())
    return folder


def exported(folder: Path) -> list[str]:
    lines = hacs(folder, "experiment", "export").stdout.splitlines()
    return [line for line in lines if line.startswith("{")]


def test_an_export_spells_out_what_a_record_says(full: Path) -> None:
    lines = [json.loads(line) for line in exported(full)]
    assert len(lines) == 800
    first = lines[0]
    assert first["at"] == "2023-11-14T00:00:05Z"
    assert first["url"] in URLS
    assert first["days_since_visit"] is None
    assert lines[-1]["p"] == pytest.approx(0.1)
    assert {line["policy"] for line in lines} == {"hacs", "last-obs"}
    assert asdict(LABELS[0]).keys() <= first.keys()


def test_the_keys_of_an_export_are_documented_in_their_order(full: Path) -> None:
    section = DOCS.read_text().split("\n## hacs experiment export\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE) == list(
        json.loads(exported(full)[0])
    )


def test_an_import_gives_the_same_records_and_twice_changes_nothing(
    full: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "outcomes.jsonl.gz"
    assert hacs(full, "experiment", "export", "-o", str(target)).exit_code == 0
    for new in (800, 0):
        assert hacs(tmp_path, "import", str(target)).exit_code == 0
        assert f"800 outcome records read, {new} new" in caplog.text
    expected = recorded()[np.lexsort((recorded()["page_id"], recorded()["at"]))]
    with opened(tmp_path) as state:
        assert sum(len(part) for part in state.store.outcomes()) == 800
        assert (state.outcomes() == expected).all()
        assert state.label(LABELS[0].number) == LABELS[0]


def test_an_import_adds_what_the_state_does_not_have(full: Path, tmp_path: Path) -> None:
    lines = exported(full)
    for name, part in (("early", lines[:500]), ("late", lines[300:])):
        (tmp_path / name).write_text("\n".join(part))
        assert hacs(tmp_path, "import", str(tmp_path / name)).exit_code == 0
    with opened(tmp_path) as state:
        assert sum(len(part) for part in state.store.outcomes()) == 800


def test_a_record_without_a_label_is_left_out_of_a_file_that_has_all_others(
    full: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(full) as state:
        state.store.write_meta({f"label/{LABELS[0].number}": None})
        left_out = np.count_nonzero(state.outcomes()["label"] == LABELS[0].number)
    target = tmp_path / "outcomes.jsonl"
    assert hacs(full, "experiment", "export", "-o", str(target)).exit_code == 1
    assert len(target.read_text().splitlines()) == 800 - left_out
    assert f"records exported, {left_out} without a label left out" in caplog.text


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("hacs_outcome", 2, "a layout that this version cannot read"),
        ("p", 1.5, "Expected `float` <= 1.0 - at `$.p`"),
        ("at", "yesterday", "Invalid RFC3339 encoded datetime - at `$.at`"),
        ("page", "xyz", "Expected `str` matching regex '^[0-9a-f]{16}$' - at `$.page`"),
    ],
)
def test_a_damaged_line_is_named_and_those_before_it_are_kept(
    key: str,
    value: object,
    problem: str,
    full: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    good = exported(full)[0]
    bad = json.dumps({**json.loads(good), key: value})
    (tmp_path / "damaged").write_text(f"{good}\n{bad}\n")
    caplog.clear()
    assert hacs(tmp_path, "import", "damaged").exit_code == 1
    assert "damaged, line 2: " in caplog.text
    assert problem in caplog.text
    with opened(tmp_path) as state:
        assert len(state.outcomes()) == 1
