"""Parts of a crawl that fail, each in all of its hooks: they cost no request."""

from inspect import iscoroutinefunction
from typing import Any

from fuzz.spiders import ScenarioError
from hacs_crawler.crawl.part import Part

HOOKS = [
    name
    for name, value in vars(Part).items()
    if callable(value) and not name.startswith("_") and name != "from_crawl"
]


def _part(name: str, result: object) -> type[Part]:
    def hook(self: Part, *given: Any) -> object:
        if result is None:
            raise ScenarioError(name)
        return result

    async def async_hook(self: Part, *given: Any) -> object:
        return hook(self, *given)

    return type(
        name,
        (Part,),
        {one: async_hook if iscoroutinefunction(getattr(Part, one)) else hook for one in HOOKS},
    )


Raises = _part("Raises", None)
ReturnsRubbish = _part("ReturnsRubbish", 7)
