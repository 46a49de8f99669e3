"""Where docs/policies.md had `page_id` before; it is `page_id_of` in `hacs_crawler.links`."""

from hacs_crawler.links import page_id_of as page_id

__all__ = ["page_id"]
