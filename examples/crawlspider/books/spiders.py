from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class BooksSpider(CrawlSpider):
    name = "books"
    start_urls = ["https://books.toscrape.com/"]
    rules = (
        Rule(LinkExtractor(restrict_css=".side_categories, .next"), follow=True),
        Rule(LinkExtractor(restrict_css="article h3"), callback="parse_book"),
    )

    def parse_book(self, response):
        outcome = response.meta["hacs"]
        yield {
            "title": response.css("h1::text").get(),
            "url": response.url,
            "is_first": outcome.is_first,
            "is_update": outcome.is_update,
        }
