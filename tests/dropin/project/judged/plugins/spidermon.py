"""spidermon: monitors that look at the stats when a spider has closed."""

from spidermon import Monitor, MonitorSuite, monitors

from ..base import Row, follows, urls


@monitors.name("what a crawl brought")
class Brought(Monitor):
    @monitors.name("four items")
    def test_items(self) -> None:
        assert self.data.stats["item_scraped_count"] == 4

    @monitors.name("more than there can be")
    def test_that_fails(self) -> None:
        assert self.data.stats["item_scraped_count"] > 99


class Suite(MonitorSuite):
    monitors = [Brought]


class IsMonitored(Row):
    custom_settings = {
        "EXTENSIONS": {
            "judged.probe.Probe": 0,
            "spidermon.contrib.scrapy.extensions.Spidermon": 500,
        },
        "SPIDERMON_ENABLED": True,
        "SPIDERMON_ADD_FIELD_COVERAGE": True,
        "SPIDERMON_SPIDER_CLOSE_MONITORS": ["judged.plugins.spidermon.Suite"],
    }
    start_urls = urls("/1", "/2", "/links?to=/a")
    parse = follows
