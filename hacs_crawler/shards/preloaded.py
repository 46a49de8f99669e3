"""Imports what crawls need by default, once for all of them: most of the time that a start takes."""

import gc
import re
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from warnings import catch_warnings

import scrapy.commands
from scrapy.settings import default_settings

from hacs_crawler.config import BUILT_IN_PARTS

components = str([*BUILT_IN_PARTS, vars(default_settings)])
modules = {
    "hacs_crawler.addon",
    "hacs_crawler.ranking.calibration",
    "hacs_crawler.spiders.scholar",
    "hacs_crawler.spiders.wayback",
    "hacs_crawler.state.redis",
    "numpy.ma",  # which numpy.unique imports
    "scrapy.cmdline",
    "surt",
    *(command.name for command in iter_modules(scrapy.commands.__path__, "scrapy.commands.")),
    *re.findall(r"'((?:scrapy|hacs_crawler)\.[\w.]+)\.[A-Z]\w*'", components),
}
# it installs a reactor in Scrapy 2.13
modules.remove("scrapy.core.downloader.handlers.ftp")
gc.disable()
for name in sorted(modules):
    # some of Scrapy's modules import names that Twisted deprecates
    with suppress(ImportError), catch_warnings(action="ignore"):
        import_module(name)
gc.enable()
entry_points()  # what is installed, which Scrapy asks at each start, is then in memory
# keep this memory shared: a full collection in a crawl would write to all of it
gc.freeze()
