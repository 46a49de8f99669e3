"""Public collections of spiders: where they are, at which commit, and what of them needs a service."""

from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True)
class Collection:
    """A project of somebody else's. Nothing of it is in this repository."""

    repository: str
    commit: str
    """All 40 digits: GitHub gives a commit by its whole name only."""
    settings: str = ""
    folder: str = "."
    """That of its scrapy.cfg."""
    spiders: list[str] = field(default_factory=list)
    """Modules, where the settings do not name them."""
    arguments: dict[str, str] = field(default_factory=dict)
    overrides: dict[str, Any] = field(default_factory=dict)
    """Of its settings: what needs a database, a service, or files that are not in the repository."""
    environment: dict[str, str] = field(default_factory=dict)


_OF_CITIES = {
    "City-Bureau/city-scrapers": "292e3f20e2b0cf044e8571bd3acf9cd84249af30",
    "City-Bureau/city-scrapers-det": "708787f7fa18af34ea40b0089ec345260dcb9735",
    "City-Bureau/city-scrapers-cle": "93e3e567cb5c6db7c39bb9eea1bebaca989763a8",
    "pgh-public-meetings/city-scrapers-pitt": "63150a522a512d35b64e4068e25169cf46875598",
    "washabstract/city-scrapers-ca": "eb12d1274c22c52348ddad0cabc11434fe080ed9",
}
_PLAIN = {
    "PyFeeds/PyFeeds": ("2fe9718b285244c51fc0f8f25d24cf0777de6fa3", "feeds.default_settings"),
    "TaiwanStat/Taiwan-news-crawlers": (
        "3761ce9fc428e6813a5d987aea7c9338464d42bf",
        "TaiwanNewsCrawler.settings",
    ),
    "public-law/open-gov-crawlers": (
        "87bdeaac38aae3f21c96e87331fb1636dc5ad424",
        "public_law.settings",
    ),
    "saadaoui-salah/scrapers": ("49b6dff47caccd17b90166ff16230f2bdaf7807e", "core.settings"),
    "scrapy/quotesbot": ("16ec3f4176db67ca9132f7e4431d7823e5e28974", "quotesbot.settings"),
    "scrapy/booksbot": ("959a7dcdcf34c12f446a20e6e7bbecf97697f0fd", "books.settings"),
    "scrapy/dirbot": ("8e995447361ad83f6693d2e07d17d90912268ace", "dirbot.settings"),
}
"""Commit and settings of those that need nothing."""
COLLECTIONS: Final = {
    **{name.partition("/")[2]: Collection(name, *of) for name, of in _PLAIN.items()},
    "alltheplaces": Collection(
        "alltheplaces/alltheplaces",
        "0e866a2c1f584e84ffc261a32afc747d8e2a24ec",
        "locations.settings",
        overrides={
            "ITEM_PIPELINES": {
                "locations.pipelines.apply_nsi_categories.ApplyNSICategoriesPipeline": None
            },
            "REQUESTS_CACHE_ENABLED": False,
        },
    ),
    "querido-diario": Collection(
        "okfn-brasil/querido-diario",
        "87cfb90015f9643cffb6c01d5c47d38202f0c142",
        "gazette.settings",
        folder="querido_diario_raspadores",
        overrides={
            "ITEM_PIPELINES": {"gazette.pipelines.SQLDatabasePipeline": None},
            "EXTENSIONS": {
                "gazette.extensions.StatsPersist": None,
                "spidermon.contrib.scrapy.extensions.Spidermon": None,
            },
        },
    ),
    **{
        name.partition("/")[2]: Collection(
            name,
            commit,
            "city_scrapers.settings.base",
            overrides={"COMMANDS_MODULE": "", "CLOSESPIDER_ERRORCOUNT": 0},
        )
        for name, commit in _OF_CITIES.items()
    },
    "kingfisher-collect": Collection(
        "open-contracting/kingfisher-collect",
        "bb7f5bd2c30e4c3ecfc155a7280feb50f714ca69",
        "kingfisher_scrapy.settings",
        overrides={
            "EXTENSIONS": {
                f"kingfisher_scrapy.extensions.{name}": None
                for name in ("SentryLogging", "DatabaseStore", "KingfisherProcessAPI2")
            }
        },
    ),
    "jedeschule": Collection(
        "Datenschule/jedeschule-scraper",
        "3df612eaced764d07808e371e9b647ce840901db",
        "jedeschule.settings",
        environment={"ENVIRONMENT": "TEST"},
    ),
    "zyte-spider-templates": Collection(
        "zytedata/zyte-spider-templates",
        "579c60037add982cef4459aedd5f7e3c55e602bd",
        spiders=["zyte_spider_templates.spiders"],
        arguments={"url": "https://books.example"},
    ),
    "dev-scrapy-stores": Collection(
        "shayan4Ii/dev-scrapy-stores",
        "01fc6fa177fb8554d39e8037aff95102b45d255d",
        "scrapy_store_scrapers.settings",
        overrides={
            "ITEM_PIPELINES": {"spidermon.contrib.scrapy.pipelines.ItemValidationPipeline": None},
            "SPIDERMON_ENABLED": False,
        },
    ),
    "scrapy-poet": Collection(
        "scrapinghub/scrapy-poet",
        "64929de02afcfdae31f032b629d05af5a8e44c28",
        "example.settings",
        folder="example",
    ),
}
