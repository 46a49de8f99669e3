"""`hacs calibrate`, called as the command line calls it."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from calibration_support import BAYES, drawn, keep, label
from hacs_crawler.cli.app import app
from hacs_crawler.state.address import open_store
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.outcome_log import SEEN


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///state.db", "hacs", tmp_path)
    yield State(store, Estimation())
    store.close()


@pytest.fixture
def calibrate(caplog):
    """Runs the command; returns its output and log, after checking the exit status."""

    def run(*arguments, status=0):
        caplog.clear()
        with caplog.at_level("INFO"):
            done = CliRunner().invoke(
                app, ["calibrate", "-s", "HACS_STATE=sqlite:///state.db", *arguments]
            )
        assert done.exit_code == status, done.output
        return done.output + caplog.text

    return run


def cells(output, start):
    """The cells of the line that starts so."""
    line = next(line for line in output.splitlines() if line.startswith(f"{start}  "))
    return re.split(r"  +", line)


def test_the_table_has_each_policys_predictions_and_what_they_found(state, calibrate):
    for by in (label(), label("last-obs")):
        some = drawn(1_000, lambda p: p, by=by, first_at=len(by.policy) * 10_000)
        keep(state, some, by)
    output = calibrate()
    found = int(np.count_nonzero(some["flags"] > 1))
    for policy in ("hacs", "last-obs"):
        assert cells(output, policy)[1:5] == [
            BAYES, "1000", f"{some['p'].sum(dtype=float):.1f}", str(found),
        ]  # fmt: skip


def test_the_bins_show_predicted_and_found(state, calibrate):
    keep(state, drawn(3_000, lambda p: p**2))
    rows = re.findall(r"^ +300 +(\S+) % +(\S+) % .* % +([#|][#| ]*)$", calibrate(), re.M)
    assert len(rows) == 10
    predicted, found, bar = rows[-1]
    assert float(predicted) == pytest.approx(47.5, abs=0.5)
    assert float(found) == pytest.approx(22.6, abs=6)
    assert bar.rstrip().endswith("|")
    assert bar.count("#") == pytest.approx(30 * 22.6 / 47.5, abs=4)


def test_without_any_record_it_says_so(state, calibrate):
    assert "no predicted visit is recorded yet" in calibrate()


def test_records_of_a_damaged_label_are_passed_over(state, calibrate):
    keep(state, drawn(300, lambda p: p))
    state.store.write_meta({f"label/{label().number}": {"policy": "hacs"}})
    output = calibrate()
    assert "is damaged, or of a newer version" in output
    assert "no predicted visit is recorded yet" in output


def test_where_the_skill_is_negative_it_says_what_to_do(state, calibrate):
    keep(state, drawn(3_000, lambda p: 0.1 * p))
    said = " ".join(calibrate().split())
    assert "The skill is negative:" in said
    assert "use no HACS_THRESHOLD" in said


def test_a_positive_skill_needs_no_advice(state, calibrate):
    keep(state, drawn(5_000, lambda p: p))
    assert "skill is negative" not in calibrate()


def test_json_has_the_scores_the_bins_and_what_to_do(state, calibrate):
    some = drawn(3_000, lambda p: 0.1 * p)
    keep(state, some)
    output = calibrate("--json")
    (group,) = json.loads(output[: output.rindex("}") + 1])["predictions"]
    assert (group["policy"], group["model"], group["visits"]) == ("hacs", BAYES, 3_000)
    assert group["brier"] == pytest.approx(np.mean((some["p"] - (some["flags"] > SEEN)) ** 2))
    assert len(group["bins"]) == 10
    assert sum(one["visits"] for one in group["bins"]) == 3_000
    assert "The skill is negative" in group["advice"]


def test_csv_has_a_row_for_each_bin(state, calibrate):
    keep(state, drawn(3_000, lambda p: p))
    head, *rows = calibrate("--csv", "-").splitlines()[:11]
    assert head == "policy,model,visits,predicted,found,low,high"
    assert all(row.startswith(f'hacs,"{BAYES}",300,0.') for row in rows)
