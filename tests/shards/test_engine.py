"""Crawls run by threads of one process."""

from concurrent.futures import ThreadPoolExecutor
from multiprocessing.popen_forkserver import Popen
from pathlib import Path
from threading import Event

import pytest

from hacs_crawler.shards.engine import Order, Pool, run_crawl

pytestmark = pytest.mark.slow


def test_each_exit_status_is_read_by_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two threads that read it, the second would find nothing, and take that for a failure."""
    poll, polled, twice = Popen.poll, set[int](), []

    def slowly(popen: Popen, *given: int) -> int | None:
        if popen.pid in polled:
            twice.append(popen.pid)
        polled.add(popen.pid)
        Event().wait(0.01)
        status: int | None = poll(popen, *given)
        polled.discard(popen.pid)
        return status

    monkeypatch.setattr(Popen, "poll", slowly)
    with ThreadPoolExecutor(4) as threads:
        pool = Pool(threads, lambda function, *given: function(*given), run_crawl)
        orders = [Order(("version",), str(tmp_path / f"{number}.log")) for number in range(16)]
        results = [future.result() for future in [pool.start(order) for order in orders]]
    assert not twice
    assert {result.status for result in results} == {0}
