"""What files of an index leave in the state does not depend on how it is split, or on its order."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, strategies as st

from hacs_crawler.cli.transfer import Importer
from hacs_crawler.links import LinkRules
from hacs_crawler.state import Estimation, MemoryStore, Page, State
from wayback_support import known

PAGES = [f"http://example.edu/~{name}/" for name in ("ada", "bob")]
KINDS = ["text/html 200", "text/html 200", "warc/revisit -", "warc/revisit 200", "text/html 404"]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(PAGES),
        st.integers(0, 20),
        st.sampled_from(KINDS),
        st.sampled_from(["A", "B", "C", "-"]),
    ),
    unique_by=lambda row: row[:2],
    max_size=14,
)


def line(row: tuple[str, int, str, str]) -> str:
    url, day, kind, digest = row
    digest = digest if digest == "-" else digest * 32
    return f"edu,example)/ 202001{day + 1:02}000000 {url} {kind} {digest} 1\n"


def imported(*files: Sequence[str]) -> dict[str, Page]:
    """The pages after files of these lines were imported one after the other."""
    state = State(MemoryStore(), Estimation())
    with TemporaryDirectory() as folder:
        for number, lines in enumerate(files):
            path = Path(folder, f"{number}.cdx")
            path.write_text(" CDX N b a m s k S\n" + "".join(lines))
            Importer(lambda: state, LinkRules(), Counter()).import_file(str(path))
    return {page.url: page for page in state.pages() if page}


@given(
    ROWS, st.lists(st.integers(0, 3), min_size=14, max_size=14), st.randoms(use_true_random=False)
)
def test_any_split_into_files_and_any_order_of_rows_gives_the_same_state(
    rows: list[tuple[str, int, str, str]], places: list[int], chance: random.Random
) -> None:
    lines = [line(row) for row in sorted(rows)]
    shuffled = chance.sample(lines, len(lines))
    files: list[list[str]] = [[], [], [], []]
    for one, place in zip(shuffled, places, strict=False):
        files[place].append(one)
    assert known(imported(*files)) == known(imported(lines))


ONE, TWO = (line((PAGES[0], day, "text/html 200", digest)) for day, digest in enumerate("AB"))


def test_a_revisit_whose_page_is_in_a_later_file_is_a_visit_then() -> None:
    revisit = line((PAGES[0], 5, "warc/revisit -", "A"))
    assert not imported([revisit])[PAGES[0]].visits
    assert len(imported([revisit], [ONE])[PAGES[0]].visits) == 2


def test_a_revisit_of_an_error_is_no_visit_in_whatever_file_the_error_is() -> None:
    error = line((PAGES[0], 4, "text/html 404", "C"))
    revisit = line((PAGES[0], 5, "warc/revisit -", "C"))
    for files in ([[ONE, error, revisit]], [[revisit], [error], [ONE]]):
        assert len(imported(*files)[PAGES[0]].visits) == 1
