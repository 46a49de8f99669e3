"""Watched marks other than links: selections, texts, items. No I/O."""

from typing import TYPE_CHECKING

from hacs_crawler.utils.faces import face

if TYPE_CHECKING:
    from hacs_crawler.watch.items import (
        EMPTY as EMPTY,
        NOT_ARCHIVED as NOT_ARCHIVED,
        TITLES as TITLES,
        fields_like as fields_like,
        item_fields as item_fields,
        item_key as item_key,
        item_texts as item_texts,
    )
    from hacs_crawler.watch.rules import (
        ONLY_REQUESTS as ONLY_REQUESTS,
        AnswerType as AnswerType,
        MarkRules as MarkRules,
        Rules as Rules,
        UnreadableMarksError as UnreadableMarksError,
        content_of as content_of,
    )
    from hacs_crawler.watch.selection import entry_titles as entry_titles
    from hacs_crawler.watch.settings import (
        PUBLICATIONS as PUBLICATIONS,
        WatchSettings as WatchSettings,
    )

__getattr__ = face(__name__, __file__)
