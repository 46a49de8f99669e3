"""Two crawls of one spider, one after the other, in one process."""

from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils.defer import deferred_f_from_coro_f
from scrapy.utils.log import configure_logging
from scrapy.utils.project import get_project_settings
from scrapy.utils.reactor import install_reactor

SETTINGS = get_project_settings()
install_reactor(SETTINGS["TWISTED_REACTOR"])
configure_logging(SETTINGS)


@deferred_f_from_coro_f
async def crawl_twice() -> None:
    runner = AsyncCrawlerRunner(SETTINGS)
    await runner.crawl("start-urls")
    await runner.crawl("start-urls")


from twisted.internet import reactor  # noqa: E402 - it is installed only now

crawls = crawl_twice()
crawls.addBoth(lambda _: reactor.stop())
reactor.run()
