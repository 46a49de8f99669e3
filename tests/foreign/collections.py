"""Public collections of spiders: where they are, at which commit, and what of them needs a service."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, kw_only=True)
class Collection:
    """A project of somebody else's. Nothing of it is in this repository."""

    repository: str
    commit: str
    folder: str = "."
    """That of its scrapy.cfg."""
    settings: str = ""
    spiders: list[str] = field(default_factory=list)
    """Modules, where the settings do not name them."""
    arguments: dict[str, str] = field(default_factory=dict)
    overrides: dict[str, Any] = field(default_factory=dict)
    """Of its settings: what needs a database, a service, or files that are not in the repository."""
    environment: dict[str, str] = field(default_factory=dict)


def _city(owner: str, name: str, commit: str) -> Collection:
    return Collection(
        repository=f"{owner}/{name}",
        commit=commit,
        settings="city_scrapers.settings.base",
        overrides={"COMMANDS_MODULE": "", "CLOSESPIDER_ERRORCOUNT": 0},
    )


COLLECTIONS: Final = {
    "alltheplaces": Collection(
        repository="alltheplaces/alltheplaces",
        commit="0e866a2c1",
        settings="locations.settings",
        overrides={
            "ITEM_PIPELINES": {
                "locations.pipelines.apply_nsi_categories.ApplyNSICategoriesPipeline": None,
            },
            "REQUESTS_CACHE_ENABLED": False,
        },
    ),
    "querido-diario": Collection(
        repository="okfn-brasil/querido-diario",
        commit="87cfb900",
        folder="querido_diario_raspadores",
        settings="gazette.settings",
        overrides={
            "ITEM_PIPELINES": {"gazette.pipelines.SQLDatabasePipeline": None},
            "EXTENSIONS": {
                "gazette.extensions.StatsPersist": None,
                "spidermon.contrib.scrapy.extensions.Spidermon": None,
            },
        },
    ),
    "city-scrapers": _city("City-Bureau", "city-scrapers", "292e3f20"),
    "city-scrapers-det": _city("City-Bureau", "city-scrapers-det", "708787f"),
    "city-scrapers-cle": _city("City-Bureau", "city-scrapers-cle", "93e3e56"),
    "city-scrapers-pitt": _city("pgh-public-meetings", "city-scrapers-pitt", "63150a5"),
    "kingfisher-collect": Collection(
        repository="open-contracting/kingfisher-collect",
        commit="bb7f5bd2",
        settings="kingfisher_scrapy.settings",
        overrides={
            "EXTENSIONS": {
                "kingfisher_scrapy.extensions.SentryLogging": None,
                "kingfisher_scrapy.extensions.DatabaseStore": None,
                "kingfisher_scrapy.extensions.KingfisherProcessAPI2": None,
            }
        },
    ),
    "jedeschule": Collection(
        repository="Datenschule/jedeschule-scraper",
        commit="3df612e",
        settings="jedeschule.settings",
        environment={"ENVIRONMENT": "TEST"},
    ),
    "zyte-spider-templates": Collection(
        repository="zytedata/zyte-spider-templates",
        commit="579c600",
        spiders=["zyte_spider_templates.spiders"],
        arguments={"url": "https://books.example"},
    ),
    "openrecipes": Collection(
        repository="fictivekin/openrecipes",
        commit="82b5c08",
        folder="scrapy_proj",
        settings="openrecipes.settings",
    ),
    "scrapy-poet": Collection(
        repository="scrapinghub/scrapy-poet",
        commit="64929de",
        folder="example",
        settings="example.settings",
    ),
    "quotesbot": Collection(
        repository="scrapy/quotesbot", commit="16ec3f4", settings="quotesbot.settings"
    ),
    "booksbot": Collection(
        repository="scrapy/booksbot", commit="959a7dc", settings="books.settings"
    ),
    "dirbot": Collection(repository="scrapy/dirbot", commit="8e99544", settings="dirbot.settings"),
}
