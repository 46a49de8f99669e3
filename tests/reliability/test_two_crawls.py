"""Two crawls of the same pages at once, on one state."""

from __future__ import annotations

import subprocess
import sys

from integration_support import QUICK, ROOT, Project, finish
from reliability_support import fill, whole_pages
from servers import Site


def test_two_crawls_at_once_share_one_state(site: Site, project: Project) -> None:
    urls = fill(site)
    seeds = project.folder / "seeds.txt"
    seeds.write_text("\n".join(urls))
    command = [sys.executable, "-m", "scrapy", "crawl", "scholar", "-a", f"seeds={seeds}"]
    for setting in (*QUICK, f"HACS_STATE={project.state}", "HACS_FLUSH_VISITS=2"):
        command += ["-s", setting]
    both = [
        subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    crawls = [finish(process) for process in both]
    assert [crawl.exit_status for crawl in crawls] == [0, 0]
    assert all(crawl.stat("hacs/visits") == len(urls) for crawl in crawls)
    assert len(whole_pages(project.state)) == len(urls)
