"""The list of hubs: what is written of each, and read again."""

from pathlib import Path

import pytest

from hacs_crawler.exceptions import HacsError
from hacs_crawler.ranking.instant import ListedHub, read_hubs


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    hubs = [
        ListedHub("https://a.example/", -0.25, 0.9, 1.5),
        ListedHub("https://b.example/news/", 1.0, 1.2, 0.004),
    ]
    file = tmp_path / "instant.txt"
    file.write_text("".join(f"{hub.line('0.812: 3 of 4 pages temporal')}\n" for hub in hubs))
    assert read_hubs(file) == hubs


def test_any_seed_file_is_a_list(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text(
        "\ufeff# hubs\n\nhttps://a.example/#top\nhttps://b.example/ # my own\n"
        "https://b.example/ # 0.1: x\n"
    )
    assert read_hubs(file) == [ListedHub("https://a.example/#top"), ListedHub("https://b.example/")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# nothing\n", "there is no hub in it"),
        ("https://a.example/\nnews\n", "line 2: "),
        ("https://a.example/ # mu=0 sigma=0\n", "line 1: sigma=0: must be 0.01 to 20"),
        ("https://a.example/ # worth=-1\n", "worth=-1: must be"),
        ("https://a.example/\n\xff", "not UTF-8"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "instant.txt"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(HacsError, match=message) as error:
        read_hubs(file)
    assert str(file) in str(error.value)


def test_a_missing_list_is_named(tmp_path: Path) -> None:
    with pytest.raises(HacsError, match="cannot read the list of hubs"):
        read_hubs(tmp_path / "missing.txt")
