"""The project's own scheduler, which HACS's scheduler wraps, and what it guarantees."""

from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

from scrapy import Request
from scrapy.core.scheduler import BaseScheduler, Scheduler
from scrapy.crawler import Crawler
from scrapy.pqueues import DownloaderAwarePriorityQueue, ScrapyPriorityQueue
from scrapy.utils.misc import build_from_crawler, load_object

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.scrapy_internals import enqueue_unfiltered, filter_of
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)


def inner_scheduler(crawl: Crawl, outer: type[BaseScheduler]) -> BaseScheduler:
    """Build the scheduler named by HACS_INNER_SCHEDULER; if that is impossible, fail the crawl."""
    scheduler: type[BaseScheduler] = Scheduler
    name = crawl.config.inner_scheduler
    try:
        loaded: Any = load_object(name)
        is_scheduler = isinstance(loaded, type) and issubclass(loaded, BaseScheduler)
        if loaded is outer or not is_scheduler:
            raise ValueError("not a scheduler, or HACS's own")  # noqa: TRY301 - the same message as below
        scheduler = loaded
    except (ImportError, NameError, ValueError) as error:
        crawl.fail(f"HACS_INNER_SCHEDULER = {name!r}: must be a scheduler's path ({error})")
    try:
        if scheduler is Scheduler:
            _keep_job(crawl.crawler)
        return build_from_crawler(scheduler, crawl.crawler)
    except Exception as error:
        if scheduler is not Scheduler:
            crawl.fail(f"HACS_INNER_SCHEDULER: {scheduler.__name__} does not start: {error}")
        else:
            # log the traceback: it shows the class at fault, such as DUPEFILTER_CLASS
            if not isinstance(error, OSError):
                logger.error("Scrapy's scheduler cannot be made", exc_info=error)
            crawl.fail(f"the crawl cannot start: {type(error).__name__}: {error}")
        return _NoScheduler()


def keeps_requests(inner: BaseScheduler, crawler: Crawler) -> bool:
    """Whether requests in the scheduler may outlast the crawl, like a job's requests on disk."""
    return type(inner) is not Scheduler or bool(crawler.settings["JOBDIR"])


def _keep_job(crawler: Crawler) -> None:
    """Back up the queue of a paused job, or restore the backup if the resumed job was killed.

    Scrapy's disk queues save their positions only on closing, but ranking takes all seeds out before.
    """
    if not crawler.settings["JOBDIR"]:
        return
    queue, kept, other = _job_folders(crawler)
    rmtree(other, ignore_errors=True)
    if kept.exists() or not (queue / "active.json").exists():
        rmtree(queue, ignore_errors=True)
    if kept.exists():
        copytree(kept, queue)
    elif queue.exists():
        copytree(queue, other).rename(kept)


def end_job(inner: BaseScheduler, crawler: Crawler) -> None:
    """Remove the backup of a job's queue: the queue was closed properly."""
    if type(inner) is Scheduler and crawler.settings["JOBDIR"]:
        _, kept, other = _job_folders(crawler)
        if kept.exists():
            rmtree(kept.rename(other))


def _job_folders(crawler: Crawler) -> list[Path]:
    """Return the folders of a job's queue, of its backup, and of an incomplete backup."""
    names = ("requests.queue", "hacs.queue", "hacs.queue.part")
    return [Path(crawler.settings["JOBDIR"], name) for name in names]


def is_scrapys_own(inner: BaseScheduler, crawler: Crawler) -> bool:
    """Whether the scheduler and its queue are Scrapy's own, in memory.

    Only then may seeds bypass it: any other may reorder requests, or process each of them.
    """
    if keeps_requests(inner, crawler):
        return False
    queue = load_object(crawler.settings["SCHEDULER_PRIORITY_QUEUE"])
    return queue in (DownloaderAwarePriorityQueue, ScrapyPriorityQueue)


def shared_filter(inner: BaseScheduler) -> "SharedFilter | None":
    """Return scrapy-redis's filter if the scheduler uses it and no other filter, else None."""
    seen = filter_of(inner)
    asked = getattr(type(seen), "request_seen", None)
    is_known = getattr(asked, "__module__", "") == "scrapy_redis.dupefilter"
    return SharedFilter(seen) if is_known else None


class SharedFilter:
    """scrapy-redis's duplicate filter, which notes a held request only when it enters the queue.

    If it were noted earlier and the process killed, Redis would drop the request in the next run.
    """

    def __init__(self, seen: Any) -> None:
        self._seen = seen
        self._held = set[str]()
        self.log = seen.log

    def request_seen(self, request: Request) -> bool:
        """Whether a request is a duplicate of a noted or held request; if not, hold it."""
        key = self._seen.request_fingerprint(request)
        if key in self._held or self._seen.server.sismember(self._seen.key, key):
            return True
        self._held.add(key)
        return False

    def is_held(self, request: Request) -> bool:
        """Whether a held request duplicates this request."""
        return not request.dont_filter and self._seen.request_fingerprint(request) in self._held

    def hold_again(self, request: Request) -> bool:
        """Hold a request that came back from Redis; False if it duplicates a held request."""
        if request.dont_filter:
            return True
        key = self._seen.request_fingerprint(request)
        self._seen.server.srem(self._seen.key, key)
        is_first = key not in self._held
        self._held.add(key)
        return is_first

    def give(self, inner: BaseScheduler, request: Request) -> bool:
        """Enqueue a request; if it is held, the filter in Redis may reject it."""
        if not self.is_held(request):
            return enqueue_unfiltered(inner, request)
        is_taken = inner.enqueue_request(request)
        self._held.discard(self._seen.request_fingerprint(request))
        return is_taken


class _NoScheduler(BaseScheduler):
    """Replaces an inner scheduler that failed to start, in a crawl that is about to close."""

    def has_pending_requests(self) -> bool:
        return False

    def enqueue_request(self, request: Request) -> bool:
        return False

    def next_request(self) -> None:
        return None
