"""What spiders of tests have in common that begin with a few pages of a site."""

from typing import Any, ClassVar

import scrapy


class Seeded(scrapy.Spider):
    """Begins with `paths` of the site whose address it is given."""

    name = "seeded"
    paths: ClassVar[list[str]] = ["/"]

    def __init__(self, url: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.start_urls = [url + path for path in self.paths]
