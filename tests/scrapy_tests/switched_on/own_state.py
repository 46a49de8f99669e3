"""The add-on with a new state for each crawl, so that no test learns of another."""

import os
import uuid

from scrapy.settings import BaseSettings

from hacs_crawler.addon import HacsAddon


class WithOwnState(HacsAddon):
    def update_settings(self, settings: BaseSettings) -> None:
        """Add a state in the folder that SCRAPY_TESTS_STATES names, then do as the add-on does."""
        file = f"{os.environ['SCRAPY_TESTS_STATES']}/{uuid.uuid4().hex}.db"
        settings.set("HACS_STATE", f"sqlite:///{file}", "addon")
        super().update_settings(settings)
