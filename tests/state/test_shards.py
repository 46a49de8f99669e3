"""Shards: all pages of a host are in one of so many states."""

from hashlib import blake2b

import pytest

from hacs_crawler.links import page_id_of
from hacs_crawler.state import Shard, shard_of_page, shards_of
from hacs_crawler.state.shards import shard_of
from hacs_crawler.utils.settings import NotAllowedError


def test_a_shard_is_written_as_index_and_count_and_has_a_namespace_of_its_own() -> None:
    assert Shard.parse("3/16") == Shard(3, 16)
    assert str(Shard(3, 16)) == "3/16"
    assert Shard(3, 16).namespace("hacs") == "hacs.3-16"


@pytest.mark.parametrize("text", ["3/0", "16/16", "0/0", "x", "", "-1/4", "1/4/2", "1/9999", "3"])
def test_what_is_no_shard_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(NotAllowedError, match=r"^INDEX/COUNT with .*$"):
        Shard.parse(text)


def test_the_number_of_a_shard_is_a_hash_of_the_host_that_anyone_can_make() -> None:
    expected = int.from_bytes(blake2b(b"example.edu", digest_size=8).digest()) % 16
    assert shard_of("example.edu", 16) == shard_of("www.example.edu", 16) == expected
    assert shard_of_page("https://example.edu/~ada", 16) == expected


@pytest.mark.parametrize(
    "spellings",
    [
        ("http://example.edu/a", "https://www.Example.edu:443/a", "https://www2.example.edu./a/"),
        ("http://127.0.0.1:8001/", "http://127.0.0.1:8002/b"),
        ("http://[::1]:8001/", "http://[::1]/b"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/x"),
    ],
)
def test_all_spellings_ports_and_schemes_of_a_host_are_in_one_shard(
    spellings: tuple[str, ...],
) -> None:
    assert len({shard_of_page(url, 1_000) for url in spellings}) == 1


def test_a_page_is_in_exactly_one_shard_and_hosts_spread_over_all() -> None:
    urls = [f"http://host{number}.example/" for number in range(200)]
    assert len({page_id_of(url) for url in urls}) == len(urls)
    holders = [[shard.index for shard in shards_of(7) if shard.has(url)] for url in urls]
    assert {len(found) for found in holders} == {1}
    assert {found[0] for found in holders} == set(range(7))
