"""Imports, and freezes, what most crawls use: in the server from which Python forks them.

That saves each of them most of its start. These are Scrapy's default components, its commands, and the
parts of this package.
"""

import gc
import re
from contextlib import suppress
from importlib import import_module
from pkgutil import iter_modules

import scrapy.commands
from scrapy.settings import default_settings

from hacs_crawler.config import BUILT_IN_PARTS

components = str([*BUILT_IN_PARTS, vars(default_settings)])
modules = {
    "hacs_crawler.addon",
    "hacs_crawler.crawl.scheduler",
    "hacs_crawler.ranking.calibration",
    "hacs_crawler.spiders.scholar",
    "hacs_crawler.spiders.wayback",
    "numpy.ma",  # which numpy.unique imports
    "scrapy.cmdline",
    "scrapy.robotstxt",
    "surt",
    *(command.name for command in iter_modules(scrapy.commands.__path__, "scrapy.commands.")),
    *re.findall(r"'((?:scrapy|hacs_crawler)\.[\w.]+)\.[A-Z]\w*'", components),
}
# in Scrapy 2.13 it installs a reactor
modules.remove("scrapy.core.downloader.handlers.ftp")
gc.disable()
for name in sorted(modules):
    with suppress(ImportError):
        import_module(name)
gc.enable()
# else each full collection of a crawl reads, and so copies, all this
gc.freeze()
