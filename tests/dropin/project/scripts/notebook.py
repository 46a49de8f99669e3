"""What a notebook does: its cells run in an asyncio loop that runs already."""

import asyncio

from scrapy import version_info
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils.log import configure_logging
from scrapy.utils.project import get_project_settings

settings = get_project_settings()
configure_logging(settings)


async def run_cells() -> None:
    if version_info >= (2, 15):
        settings.set("TWISTED_REACTOR_ENABLED", False)
    else:
        from twisted.internet import asyncioreactor

        asyncioreactor.install(asyncio.get_running_loop())
        from twisted.internet import reactor

        reactor.startRunning(installSignalHandlers=False)
    runner = AsyncCrawlerRunner(settings)
    await runner.crawl("start-urls")
    await runner.crawl("follows-rules")


asyncio.run(run_cells())
