"""Scrapy middlewares of hacs-crawler."""
