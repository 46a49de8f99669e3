"""One command measures everything: no benchmark is left out without a word."""

from __future__ import annotations

import runpy
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_each_benchmark_is_run_with_all_others_or_said_to_be_left_out() -> None:
    everything = runpy.run_path(str(BENCHMARKS / "all.py"))
    scripts = {path.stem for path in BENCHMARKS.glob("*.py")} - {"all"}
    assert set(everything["BENCHMARKS"]) | set(everything["LEFT_OUT"]) == scripts
    assert not set(everything["BENCHMARKS"]) & set(everything["LEFT_OUT"])
