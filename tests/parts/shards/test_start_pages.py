"""What `start()` yields is read within bounds: of number, of time, and of memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from crawls_support import Shards, web
from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.parts.shards.start_pages import CUT_SHORT, START, StartReading
from hacs_crawler.state import shard_of_page

pytestmark = pytest.mark.slow
MOST_BYTES = 3 * 2**30
"""Of address space: what is imported, with the stacks of threads, takes half of it."""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Shards]:
    with web(pages=5, hosts=4) as found:
        yield Shards(tmp_path, found, f"sqlite:///{tmp_path}/state.db")


def read(project: Shards, spider: str, **bounds: float) -> tuple[bool, np.ndarray]:
    """Whether `start()` was read to its end, and the pages that it yields."""
    arguments = {"pages": str(project.web.pages), "hosts": "4", "port": "80"}
    given = {"HACS_STATE": project.state}
    file = project.folder / "found"
    reading = StartReading(spider, arguments, given, 3, str(file), **bounds)  # type: ignore[arg-type]
    done = subprocess.run(
        [sys.executable, "-m", "hacs_crawler.parts.shards.start_pages"],
        input=msgspec.json.encode(reading) + b"\n",
        cwd=project.folder,
        env=project.environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES)),
        check=False,
        timeout=240,
    )
    assert done.returncode in {0, CUT_SHORT}
    return done.returncode == 0, np.fromfile(file, START)


def test_each_page_has_its_id_its_site_and_its_shard_in_the_order_of_start(
    project: Shards,
) -> None:
    is_whole, found = read(project, "many")
    assert is_whole
    urls = [f"http://127.0.0.{host}:80/{page}.html" for page in range(5) for host in range(1, 5)]
    assert found["page_id"].tolist() == [page_id_of(url) for url in urls]
    assert found["site"].tolist() == [site_id(url) for url in urls]
    assert found["shard"].tolist() == [shard_of_page(url, 3) for url in urls]
    assert project.web.asked() == []
    assert not Path(project.state.removeprefix("sqlite:///")).exists()


def test_a_start_that_never_ends_is_read_for_some_time(project: Shards) -> None:
    is_whole, found = read(project, "endless", most_seconds=0.5)
    assert not is_whole
    assert len(found) > 0
