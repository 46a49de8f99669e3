"""Where SCHEDULER found the scheduler before; it lives in `hacs_crawler.crawl.scheduler`."""

from hacs_crawler.crawl.scheduler import HacsScheduler

__all__ = ["HacsScheduler"]
