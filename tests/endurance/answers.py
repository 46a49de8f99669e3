"""Hostile answers, and whole crawls that are drawn at random."""

import random
from pathlib import Path

from endurance.judge import Fault
from fuzz.judge import faults
from fuzz.scenario import drawn
from fuzz.spiders import KINDS
from integration_support import Project
from malformed import Sizes, malformed_site
from reliability_support import whole_pages
from servers import RedisProcess

URLS = 500
LONGEST_STALL_MS = 2_000
LONGEST_SECONDS = 1_800.0  # a browser, where there is one, takes 90 s for an answer without end
PATIENCE = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "DOWNLOAD_DELAY": 0,
    "DOWNLOAD_TIMEOUT": 5,
    "EXTENSIONS": '{"tests.heartbeat.Heartbeat": 0}',
    "REDIRECT_MAX_TIMES": 5,
    "RETRY_ENABLED": False,
}


class Hostile:
    """Broken answers are crawled twice: no visit is an update, as each answer is the same again."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "state.db"

    def attempt(self, rng: random.Random) -> tuple[int, list[Fault]]:
        self._file.unlink(missing_ok=True)
        state = f"sqlite:///{self._file}"
        project = Project(self._file.parent, state, longest_seconds=LONGEST_SECONDS)
        found: list[Fault] = []
        visits = 0
        with malformed_site(Sizes(links=1_000_000), salt=str(rng.random())) as site:
            for _ in range(2):
                crawl = project.crawl(
                    site.urls(URLS), "level=homepage", status=None, tracebacks=True, **PATIENCE
                )
                visits += crawl.stat("hacs/visits")
                if crawl.exit_status or "Traceback" in crawl.log:
                    found.append(Fault("else", f"{crawl.exit_status}: {crawl.log[-2000:]}"))
                # gone, too: a browser may follow where Scrapy does not
                counts = (crawl.stat(f"hacs/{name}") for name in ("visits", "not_observed", "gone"))
                if sum(counts) != URLS:
                    found.append(Fault("lost", "answers were not counted"))
                if not 0 < crawl.stat("heartbeat/longest_ms") < LONGEST_STALL_MS:
                    found.append(Fault("hung", "the event loop stood still"))
        pages = whole_pages(project.state).values()
        if sum(len(page.visits) for page in pages) < visits:
            found.append(Fault("lost", "visits are not in the state"))
        found += [Fault("false", f"an update of {page.url}") for page in pages if page.update_times]
        return 2 * URLS, found

    def close(self) -> None:
        pass


class Drawn:
    """Scenarios as `tests/fuzz` judges them."""

    def __init__(self, folder: Path) -> None:
        self._server = RedisProcess(folder)
        self._server.start()
        self.close = self._server.kill

    def attempt(self, rng: random.Random) -> tuple[int, list[Fault]]:
        seed = rng.randrange(2**32)
        texts = [f"seed {seed}: {one}" for one in faults(drawn(seed, [*KINDS]), self._server.url)]
        return 1, [Fault("false" if ": an update" in one else "else", one) for one in texts]
