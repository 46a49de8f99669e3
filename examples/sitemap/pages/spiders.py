from scrapy.spiders import SitemapSpider


class PagesSpider(SitemapSpider):
    name = "pages"
    sitemap_urls = ["https://www.example.org/sitemap.xml"]

    def parse(self, response):
        outcome = response.meta["hacs"]
        if outcome.is_update:
            yield {"url": response.url, "new_links": len(outcome.new_marks)}
