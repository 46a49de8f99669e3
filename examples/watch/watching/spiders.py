import scrapy

ONLY_CHANGES = {"hacs_crawler.pipelines.OnlyChanges": 100}


class PricesSpider(scrapy.Spider):
    """Prices of a shop: a feed of those that are new, or that have changed, or returned."""

    name = "prices"
    start_urls = ["https://books.toscrape.com/"]
    custom_settings = {"HACS_WATCH": "items", "ITEM_PIPELINES": ONLY_CHANGES}

    def parse(self, response):
        for book in response.css("article.product_pod"):
            yield {
                "title": book.css("h3 a::attr(title)").get(),
                "price": book.css(".price_color::text").get(),
            }


class JobsSpider(scrapy.Spider):
    """A board of jobs: those that it has not shown before, whatever it says of their age."""

    name = "jobs"
    start_urls = ["https://realpython.github.io/fake-jobs/"]
    custom_settings = {
        "HACS_WATCH": "items",
        "HACS_WATCH_IGNORE": ["posted"],
        "HACS_UPDATES": "page",
        "ITEM_PIPELINES": ONLY_CHANGES,
    }

    def parse(self, response):
        for job in response.css(".card-content"):
            yield {
                "title": job.css("h2::text").get(),
                "company": job.css("h3::text").get(),
                "posted": job.css("time::text").get(),
            }


class ChangesSpider(scrapy.Spider):
    """How much is other than at the visit before, of each page that shows something else."""

    def parse(self, response):
        outcome = response.meta["hacs"]
        if outcome.is_update:
            yield {"url": response.url, "gained": outcome.gained, "lost": outcome.lost}


class StockSpider(ChangesSpider):
    """A JSON API: what is in stock, without the time at which it was asked."""

    name = "stock"
    start_urls = ["https://dummyjson.com/products?limit=30"]
    custom_settings = {"HACS_WATCH": "jmespath:products[].{id: id, stock: stock}"}


class TermsSpider(ChangesSpider):
    """Terms of service: how many paragraphs are other ones. Needs the extra `text`."""

    name = "terms"
    start_urls = ["https://www.gnu.org/licenses/gpl-faq.html"]
    custom_settings = {"HACS_WATCH": "text"}
