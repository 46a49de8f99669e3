import scrapy


class NewsSpider(scrapy.Spider):
    name = "news"
    start_urls = ["https://quotes.toscrape.com/", "https://books.toscrape.com/"]

    def parse(self, response):
        outcome = response.meta["hacs"]  # a block page has no new links
        for href in response.css("a::attr(href)").getall():
            if outcome.is_new(response.urljoin(href)):  # not on this page before
                yield {"link": response.urljoin(href), "page": response.url}
