"""What `hacs show` says of how a page is rendered, and of what its visits take."""

from __future__ import annotations

from dataclasses import dataclass, field

from hacs_crawler.links import menu_id, page_id_of
from hacs_crawler.parts.rendering.verdicts import PageRendering, SiteRendering, Verdict, advice
from hacs_crawler.state import State


@dataclass(frozen=True, slots=True)
class VisitCost:
    """What is known of the rendering of a page and of its site."""

    page: PageRendering = field(default_factory=PageRendering)
    site: SiteRendering = field(default_factory=SiteRendering)

    @classmethod
    def read(cls, state: State, url: str) -> VisitCost:
        """Read what is known; raises StateError."""
        page, site = page_id_of(url), menu_id(url)
        marks = state.store.annotations(PageRendering.KIND, [page])
        site_marks = state.store.annotations(SiteRendering.KIND, [site])
        return cls(
            PageRendering.decoded(marks.get(page, b"")),
            SiteRendering.decoded(site_marks.get(site, b"")),
        )

    @property
    def is_rendered(self) -> bool:
        """Whether the page goes through a browser where HACS_RENDER lets it."""
        return advice(self.page, self.site).rendered

    def words(self) -> str:
        """Return it in words; none where nothing is known."""
        page = self.page
        parts = []
        if page.seconds:
            parts.append(
                f"takes {page.seconds:.2g} s with{'' if page.rendered else 'out'} a browser"
            )
        if page.verdict is Verdict.BROWSER:
            parts.append("a browser shows links that the plain answer lacks")
        elif page.verdict is Verdict.PLAIN:
            parts.append("a browser shows no more links than the plain answer")
        elif self.is_rendered:
            parts.append("a browser is needed for the site's other pages")
        return "; ".join(parts)
