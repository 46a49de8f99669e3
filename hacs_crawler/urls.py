"""Where docs/policies.md had `page_id` before; it lives in `hacs_crawler.links`."""

from hacs_crawler.links import page_id

__all__ = ["page_id"]
