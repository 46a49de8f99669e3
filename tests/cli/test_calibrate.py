"""`hacs calibrate`, called as the command line calls it."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from calibration_support import BAYES, drawn, keep, label
from hacs_crawler.cli.app import app
from hacs_crawler.ranking.calibration import (
    corrected_models,
    fit,
    read_correction,
    write_correction,
)
from hacs_crawler.state.address import open_store
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.statistics.isotonic import Correction

HALF = Correction((0.0, 0.5, 1.0), (0.0, 0.25, 1.0))


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
    (line,) = [line for line in output.splitlines() if line.startswith(start)]
    return re.split(r"  +", line)


def test_predictions_that_are_off_get_a_correction_which_is_kept(state, calibrate):
    some = drawn(3_000, lambda p: p**2)
    keep(state, some)
    assert "The correction is kept" in calibrate()
    assert read_correction(state, BAYES) == fit(some).correction


def test_the_table_has_each_policys_predictions_and_what_they_found(state, calibrate):
    for by in (label(), label("last-obs")):
        some = drawn(1_000, lambda p: p, by=by, first_at=len(by.policy) * 10_000)
        keep(state, some, by)
    output = calibrate("--dry-run")
    found = int(np.count_nonzero(some["flags"] > 1))
    for policy in ("hacs", "last-obs"):
        assert cells(output, policy)[1:5] == [
            BAYES, "1000", f"{some['p'].sum(dtype=float):.1f}", str(found),
        ]  # fmt: skip


def test_the_corrected_scores_are_those_of_the_cross_validation(state, calibrate):
    some = drawn(3_000, lambda p: p**2)
    keep(state, some)
    output, made = calibrate("--dry-run"), fit(some)
    for name, score in (("without", made.raw), ("corrected", made.crossed)):
        assert cells(output, name)[3] == f"{score.brier:.4f}"
        assert cells(output, name)[5] == f"{score.log_loss:.4f}"


def test_the_bins_show_predicted_corrected_and_found(state, calibrate):
    keep(state, drawn(3_000, lambda p: p**2))
    rows = re.findall(r"^ +300 +(\S+) % +(\S+) % +(\S+) % .* % +([#|][#| ]*)$", calibrate(), re.M)
    assert len(rows) == 10
    predicted, corrected, found, bar = rows[-1]
    assert float(predicted) == pytest.approx(47.5, abs=0.5)
    assert float(corrected) == pytest.approx(22.6, abs=4)
    assert float(found) == pytest.approx(22.6, abs=6)
    assert bar.rstrip().endswith("|")
    assert bar.count("#") == pytest.approx(30 * 22.6 / 47.5, abs=4)


def test_a_dry_run_keeps_nothing(state, calibrate):
    keep(state, drawn(3_000, lambda p: p**2))
    assert "would be kept" in calibrate("--dry-run")
    assert corrected_models(state) == []


def test_right_predictions_get_none_and_one_kept_before_is_forgotten(state, calibrate):
    keep(state, drawn(5_000, lambda p: p))
    write_correction(state, BAYES, HALF)
    assert "The one kept before is forgotten" in calibrate()
    assert read_correction(state, BAYES) is None


def test_too_little_is_said_in_a_line_and_leaves_what_is_kept(state, calibrate):
    keep(state, drawn(100, lambda p: p))
    write_correction(state, BAYES, HALF)
    output = calibrate()
    assert "no correction can be fitted: 100 predicted visits, at least 200 are needed" in output
    assert read_correction(state, BAYES) == HALF


def test_without_any_record_it_says_so(state, calibrate):
    assert "no predicted visit is recorded yet" in calibrate()


def test_remove_forgets_all_corrections_a_damaged_one_too(state, calibrate):
    write_correction(state, BAYES, HALF)
    write_correction(state, "mle", HALF)
    state.store.write_meta("calibration/mle", "damaged")
    assert f"2 corrections forgotten; {BAYES}; mle" in calibrate("--remove")
    assert "0 corrections forgotten" in calibrate("--remove")
    assert read_correction(state, "mle") is None


def test_where_crawls_do_not_apply_corrections_it_says_so(state, calibrate):
    keep(state, drawn(3_000, lambda p: p**2))
    assert "HACS_CALIBRATION is False" in calibrate("-s", "HACS_CALIBRATION=False")


def test_dry_run_and_remove_exclude_each_other(state, calibrate):
    assert "exclude each other" in calibrate("--dry-run", "--remove", status=2)


def test_records_of_a_damaged_label_are_passed_over(state, calibrate):
    keep(state, drawn(300, lambda p: p))
    state.store.write_meta(f"label/{label().number}", {"policy": "hacs"})
    output = calibrate()
    assert "is damaged, or of a newer version" in output
    assert "no predicted visit is recorded yet" in output


def test_where_the_skill_is_negative_it_says_what_to_do(state, calibrate):
    keep(state, drawn(3_000, lambda p: 0.1 * p))
    said = " ".join(calibrate().split())
    assert "The skill is negative:" in said
    assert "The correction mends it: leave HACS_CALIBRATION on" in said


def test_where_a_negative_skill_cannot_be_mended_yet_it_says_what_helps(state, calibrate):
    keep(state, drawn(150, lambda p: 0.1 * p))
    said = " ".join(calibrate().split())
    assert "use no HACS_THRESHOLD" in said
    assert "more visits (a correction takes 200 of 10 sites)" in said


def test_a_positive_skill_needs_no_advice(state, calibrate):
    keep(state, drawn(5_000, lambda p: p))
    assert "skill is negative" not in calibrate()


def test_json_has_the_scores_the_bins_and_what_to_do(state, calibrate):
    some = drawn(3_000, lambda p: 0.1 * p)
    keep(state, some)
    output, made = calibrate("--dry-run", "--json"), fit(some)
    found = json.loads(output[: output.rindex("}") + 1])
    (group,), (model,) = found["predictions"], found["models"]
    assert (group["policy"], group["model"], group["visits"]) == ("hacs", BAYES, 3_000)
    assert model["without"]["brier"] == pytest.approx(made.raw.brier)
    assert model["corrected"]["brier"] == pytest.approx(made.crossed.brier)
    assert (model["is_better"], len(model["bins"])) == (True, 10)
    assert sum(one["visits"] for one in model["bins"]) == 3_000
    assert "The skill is negative" in model["advice"]


def test_csv_has_a_row_for_each_bin(state, calibrate):
    keep(state, drawn(3_000, lambda p: p))
    head, *rows = calibrate("--dry-run", "--csv", "-").splitlines()[:11]
    assert head == "model,visits,predicted,corrected,found,low,high"
    assert all(row.startswith(f"{BAYES},300,0.") for row in rows)
