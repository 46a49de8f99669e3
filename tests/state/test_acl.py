"""The commands that docs/state.md grants a user of Redis are those that the server receives."""

import re
from collections.abc import Callable
from inspect import getmembers, isfunction
from pathlib import Path

import numpy as np
import pytest
import redis

from hacs_crawler.shards import shard_lock
from hacs_crawler.state import OUTCOME, ROW, Annotation, Outcomes, Store, open_store
from hacs_crawler.state.store import Change
from servers import redis_server

OF_CONNECTIONS = {"auth", "hello", "client", "acl", "config"}
"""What each client may ask, and what this test does."""
PAGE = Path(__file__).parents[2] / "docs" / "state.md"


def documented() -> set[str]:
    (found,) = re.findall(
        r"\*\*ACL\*\*: a user needs (.*?) on the keys", PAGE.read_text(), re.DOTALL
    )
    return {name.lower() for name in re.findall("`([A-Z]+)`", found)}


def outcomes_of(page_id: int) -> Outcomes:
    outcomes = np.zeros(1, OUTCOME)
    outcomes["page_id"], outcomes["at"] = page_id, 100
    return outcomes


def use(store: Store) -> None:
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: store.write(
            [Change(5, 0, b"x", bytes(ROW.itemsize), outcomes_of(5).tobytes())]
        ),
        "load": lambda: store.load([5]),
        "annotate": lambda: (
            store.annotate("kind", [Annotation(5, b"", b"x")]),
            store.annotate("kind", [Annotation(5, b"x", b"")]),
        ),
        "annotations": lambda: store.annotations("kind", [5]),
        "annotated": lambda: store.annotated("kind"),
        "all_annotations": lambda: list(store.all_annotations("kind")),
        "rows": lambda: store.rows(np.array([5])),
        "all_rows": lambda: list(store.all_rows()),
        "count": store.count,
        "add_outcomes": lambda: store.add_outcomes(outcomes_of(5)),
        "outcomes": lambda: list(store.outcomes()),
        "trim_outcomes": lambda: store.trim_outcomes(2**32 - 1),
        "size_bytes": store.size_bytes,
        "try_to_write": store.try_to_write,
        "risks": lambda: list(store.risks()),
        "write_meta": lambda: store.write_meta({"note": 1}),
        "read_meta": lambda: store.read_meta("note"),
        "swap_meta": lambda: store.swap_meta("note", 1, 2),
        "kinds": store.kinds,
        "notes": store.notes,
        "hold_notes": lambda: store.hold_notes().close(),
        "close": store.close,
    }
    assert set(calls) == {name for name, _ in getmembers(Store, isfunction) if name[0] != "_"}
    for call in calls.values():
        call()


def use_lock(url: str, namespace: str) -> None:
    lock, other = (shard_lock(url, namespace, Path()) for _ in range(2))
    assert lock.take() is None
    assert other.take() is not None
    assert lock.renew()
    lock.release()
    other.release()


@pytest.mark.slow
def test_a_user_with_the_documented_commands_can_do_everything(
    tmp_path: Path, namespace: str
) -> None:
    # a server of its own, which counts no commands of crawls that other tests left to end
    with redis_server(tmp_path) as redis_port, redis.Redis(port=redis_port) as client:
        granted = [f"+{name}" for name in documented()]
        keys = [f"{namespace}:*", f"{namespace}.*"]
        client.acl_setuser("ada", True, passwords="+pw", keys=keys, commands=granted)
        client.config_resetstat()
        url = f"redis://ada:pw@127.0.0.1:{redis_port}/0"
        use(open_store(url, namespace, Path()))
        use_lock(url, f"{namespace}.0-2")
        client.acl_deluser("ada")
        seen = {name.removeprefix("cmdstat_") for name in client.info("commandstats")}
    assert {name.partition("|")[0] for name in seen} - OF_CONNECTIONS == documented()
