"""Says at the beginning of a run of all tests how long it will take."""

from __future__ import annotations

import time

import pytest

USUAL_SECONDS = {"": 480.0, "not slow": 60.0}
"""What they take on two idle cores, by the expression after -m: measured, and rounded up."""
_begun = time.monotonic()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the time of the last such run here, or what it usually is."""
    usual = USUAL_SECONDS.get(config.option.markexpr)
    if usual is None or not _is_of_all_tests(config):
        return None
    cache = getattr(config, "cache", None)  # it can be switched off
    last = cache.get(_key(config), None) if cache else None
    if last is None:
        return f"this will take about {_text(usual)} on two idle cores"
    return f"this will take about {_text(last)}, as the last time"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep how long a run of all tests has taken."""
    config = session.config
    ended = exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
    cache = None if hasattr(config, "workerinput") else getattr(config, "cache", None)
    if ended and cache and _is_of_all_tests(config):
        cache.set(_key(config), time.monotonic() - _begun)


def _is_of_all_tests(config: pytest.Config) -> bool:
    """Whether nothing but -m was asked for that makes it shorter."""
    option = config.option
    names = ("keyword", "lf", "maxfail", "collectonly", "deselect")
    chosen = any(getattr(option, name, None) for name in names)
    return config.args_source is not pytest.Config.ArgsSource.ARGS and not chosen


def _key(config: pytest.Config) -> str:
    return f"hacs/seconds/{config.option.markexpr or 'all'}/{config.option.numprocesses}"


def _text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
