"""What a state holds, opened again, and whether it survives an export and an import."""

from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from hacs_crawler.state import Estimation, State, page_lines, read_export
from hacs_crawler.state.address import open_state
from hacs_crawler.state.sqlite import MemoryStore

OF_ITS_STATE = (
    *("rate", "share", "fast", "slow", "churn", "churning"),
    *("hrefs", "is_in_site", "version", "updates"),
)
"""Fields of a page that follow from the state it is in: its prior, settings and sites' links."""


def exported(url: str, namespace: str) -> dict[str, Any]:
    """Each page's visits and updates by URL, and what an export and import changed."""
    state = open_state(url, namespace, Path(), Estimation())
    try:
        lines = list(page_lines(state.pages()))
        damaged = lines.count(b"")
        other = State(MemoryStore(), Estimation())
        other.restore(read_export(lines, "export"))
        pages, again = _pages(state), _pages(other)
        updates = {page.url: list(page.update_times) for page in state.pages() if page}
    finally:
        state.close()
    faults = [f"{damaged} pages of the state are damaged"] if damaged else []
    faults += [
        f"an export and an import changed {name} of {url}: {value!r} became {new!r}"
        for url, fields in pages.items()
        for name, value in fields.items()
        if value != (new := again.get(url, {}).get(name))
    ]
    visits = {url: list(fields["visits"]) for url, fields in pages.items()}
    return {"visits": visits, "updates": updates, "faults": faults}


def _pages(state: State) -> dict[str, dict[str, Any]]:
    return {
        page.url: {name: value for name, value in asdict(page).items() if name not in OF_ITS_STATE}
        for page in state.pages()
        if page is not None
    }
