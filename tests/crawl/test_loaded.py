"""What a crawl loads: each of Python's full garbage collections looks at all of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

LARGE = {"scipy.special", "scipy.stats", "scipy.optimize", "rich", "surt"}
CRAWL = """
import sys
import hacs_crawler.addon, hacs_crawler.crawl.scheduler
import hacs_crawler.state.redis, hacs_crawler.state.sqlite
from hacs_crawler.middlewares import admission, archive_pause, link_additions, page_memory
from hacs_crawler.links import link_fingerprints, page_id_of
from parsel import Selector
page_id_of("http://127.0.0.1:8000/ada/?page=2")
link_fingerprints(Selector("<a href='%7Eada/?b=2&a=1'>Ada</a>").root, "https://example.edu/")
print(*sys.modules)
"""


@pytest.mark.slow
def test_a_crawl_loads_no_large_library_that_few_crawls_need() -> None:
    ran = subprocess.run([sys.executable, "-c", CRAWL], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "hacs_crawler.crawl.scheduler" in loaded
    assert LARGE & loaded == set()
