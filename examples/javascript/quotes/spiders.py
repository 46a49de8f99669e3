import scrapy


class QuotesSpider(scrapy.Spider):
    name = "quotes"
    start_urls = ["https://quotes.toscrape.com/js/"]

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            yield {"link": response.urljoin(href)}
