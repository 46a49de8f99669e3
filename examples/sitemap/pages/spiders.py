from scrapy.spiders import SitemapSpider

from hacs_crawler import Outcome


class PagesSpider(SitemapSpider):
    name = "pages"
    sitemap_urls = ["https://www.example.org/sitemap.xml"]

    def parse(self, response):
        outcome = response.meta["hacs"]
        if isinstance(outcome, Outcome) and outcome.is_update:
            yield {"url": response.url, "new_links": len(outcome.new_marks)}
