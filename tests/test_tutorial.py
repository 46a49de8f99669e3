"""What the tutorial says is what happens: each command is run, and its output compared."""

import re
from pathlib import Path

import pytest

from tutorial_support import TUTORIAL, Reader, steps

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
RANK = re.compile(r"(?<=rank {8})\d+")
URL = re.compile(r"http://scholars\.example/\S*")


def differences(expected: str, found: str, share: float = 0.1) -> list[tuple[str, str]]:
    """The words that differ, however lines are broken; numbers may differ by a share.

    Which of several pages of equal p comes first is left to chance, and p to the second.
    """
    if expected.endswith("…"):
        expected, found = expected[:-1].rstrip(), found[: len(expected) - 1].rstrip()
    texts = (RANK.sub("0", text) for text in (expected, found))
    words, others = (re.sub(r"[-|:]{3,}", "-", text).split() for text in texts)
    if len(words) != len(others):
        return [(expected, found)]
    pairs = zip(words, others, strict=True)
    return [(one, other) for one, other in pairs if not are_alike(one, other, share)]


def are_alike(one: str, other: str, share: float) -> bool:
    if URL.fullmatch(one) and URL.fullmatch(other):
        return True
    return NUMBER.sub("0", one) == NUMBER.sub("0", other) and all(
        abs(a - b) <= max(share * abs(a), 2.0 if a.is_integer() else 0.02)
        for a, b in zip(numbers(one), numbers(other), strict=True)
    )


def numbers(word: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(word)]


@pytest.mark.slow
def test_the_tutorials_commands_print_what_it_says(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    for step in steps(TUTORIAL.read_text()):
        if step.file:
            reader.write(step)
        else:
            assert differences(step.output, reader.run(step)) == [], step.command
    assert (tmp_path / "report.html").stat().st_size > 10_000
