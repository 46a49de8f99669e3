"""What the judge makes of how Scrapy's tests ended."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from scrapy_tests.run import Outcomes, judge, read_expected


class Suite:
    """Tests a, b and c; each fails with the add-on so many times, or without it too."""

    def __init__(self, always: Iterable[str] = (), **fails_with_addon: int) -> None:
        self._always = set(always)
        self._left = fails_with_addon

    def run(self, tests: Iterable[str], *, with_addon: bool) -> Outcomes:
        ran = {name for test in tests for name in ("abc" if test == "file" else test)}
        failed = self._always & ran
        for test in ran & self._left.keys():
            if with_addon and self._left[test]:
                self._left[test] -= 1
                failed.add(test)
        return Outcomes(frozenset(ran), dict.fromkeys(failed, "why"))


EVERY_TIME = 99


@pytest.mark.parametrize(
    ("suite", "expected", "status"),
    [
        pytest.param(Suite(), [], 0, id="all pass"),
        pytest.param(Suite(a=EVERY_TIME), [], 1, id="one fails with the add-on only"),
        pytest.param(Suite(a=EVERY_TIME), ["a"], 0, id="one is expected to"),
        pytest.param(Suite(), ["a"], 1, id="one is expected to, and does not"),
        pytest.param(Suite(always=["a"]), [], 0, id="one fails without the add-on too"),
        pytest.param(Suite(always=["a"], b=EVERY_TIME), [], 1, id="one does, and another not"),
        pytest.param(Suite(a=1), [], 0, id="one fails once"),
    ],
)
def test_the_exit_status_when(suite: Suite, expected: list[str], status: int) -> None:
    assert judge(suite.run, ["file"], expected, is_all=False) == status


def test_an_expected_failure_that_is_no_test_any_more_is_found_when_all_are_run() -> None:
    assert judge(Suite().run, ["file"], ["d"], is_all=False) == 0
    assert judge(Suite().run, ["file"], ["d"], is_all=True) == 1


def test_an_expected_failure_needs_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "expected.txt"
    file.write_text("# a comment\n\ntests/test_a.py::test_b[x # y]  # looks inside\n")
    assert read_expected(file) == {"tests/test_a.py::test_b[x # y]": "looks inside"}
    file.write_text("tests/test_a.py::test_b\n")
    with pytest.raises(SystemExit, match="line 1: a test is followed by"):
        read_expected(file)
