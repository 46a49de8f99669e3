"""Foreign text on its way to a terminal."""

import logging

import pytest
from hypothesis import given, strategies as st

from hacs_crawler.utils.text import printable, safe_logger


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://h.edu/~ä/?q=1", "http://h.edu/~ä/?q=1"),
        ("http://h.edu/\nERROR: all is lost", "http://h.edu/\\nERROR: all is lost"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("a\u202egpj.exe", "a\\u202egpj.exe"),
        ("a\u2028b\x85c\ud800", "a\\u2028b\\x85c\\ud800"),
        ("see http://u:SECRET@h.edu/ and https://v@h.edu", "see http://h.edu/ and https://h.edu"),
        ("invalid hostname: u:SECRET@h.edu", "invalid hostname: h.edu"),
        ("mailto:u@h.edu, u@h.edu", "mailto:u@h.edu, u@h.edu"),
        ("http:\\\\u:SECRET@h.edu", "http:\\\\h.edu"),
        ("http://h.edu/@user?mail=a@b#c@d", "http://h.edu/@user?mail=a@b#c@d"),
    ],
)
def test_foreign_text_is_made_one_line_of_letters_without_a_login(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_whatever_the_text_a_terminal_gets_letters_only(text: str) -> None:
    assert printable(text).isprintable()


def test_the_message_of_a_safe_logger_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    logger = safe_logger("hacs_crawler.tests")
    assert safe_logger("hacs_crawler.tests") is logger
    with caplog.at_level(logging.INFO):
        logger.info("%s and %d %%", "http://u:p@h/\nERROR: x", 5)
    assert caplog.messages == ["http://h/\\nERROR: x and 5 %"]
