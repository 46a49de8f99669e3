"""Two crawls at once in one process."""

from scrapy.crawler import CrawlerProcess
from scrapy.utils.project import get_project_settings

process = CrawlerProcess(get_project_settings())
process.crawl("start-urls")
process.crawl("follows-rules")
process.start()
