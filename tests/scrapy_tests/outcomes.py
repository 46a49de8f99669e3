"""A pytest plugin that writes how each test ended, as soon as it did: `--outcomes FILE`.

One that kills its worker, as a test that takes too long does, is written down as failed too.
"""

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, required=True)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # else the process that gathers the reports writes
        config.pluginmanager.register(_Writer(config.getoption("--outcomes")))


class _Writer:
    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self._write(report.nodeid, report.outcome, report.longreprtext)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report.nodeid, report.outcome, report.longreprtext)

    def _write(self, test: str, outcome: str, why: str) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps({"test": test, "outcome": outcome, "why": why}) + "\n")
