"""What `hacs crawl` plans: the pages that a spider begins with, and what each shard visits of all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import msgspec
import numpy as np
from scrapy import Spider

from hacs_crawler.cluster import Workers
from hacs_crawler.config import Config
from hacs_crawler.crawl.recipes import kind_of
from hacs_crawler.crawl.seeds import read_seeds
from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import page_id_of
from hacs_crawler.parts.shards.start_pages import (
    CUT_SHORT,
    MOST_SECONDS,
    START,
    StartReading,
    start_of,
)
from hacs_crawler.ranking.shard_rounds import (
    Round,
    ShardPages,
    StartPages,
    keep_round,
    plan_of_shards,
    rounds_of,
)
from hacs_crawler.spiders.scholar import ScholarSpider
from hacs_crawler.state import shards_of
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

BLOCKED_SECONDS: Final = 15.0
"""How much longer than it may take a `start()` that lets nothing else run is waited for."""


class Order(NamedTuple):
    """Which spider is to crawl, with which arguments and settings, in how many shards."""

    spider: type[Spider]
    arguments: Mapping[str, str]
    settings: Mapping[str, str]
    config: Config
    shards: int

    @property
    def is_endless(self) -> bool:
        """Whether its crawls go on, round after round."""
        return issubclass(self.spider, ScholarSpider) and self.arguments.get("forever") == "1"


def next_rounds(order: Order, workers: Workers, began: int) -> dict[int, Round]:
    """Plan a round over all shards, and keep in the state of each what it may visit; by number.

    Raises HacsError.
    """
    shards = [
        ShardPages(replace(order.config, shard=shard).state_arguments, starts)
        for shard, starts in zip(shards_of(order.shards), _starts_of(order), strict=True)
    ]
    options = order.config.ranking
    plan = plan_of_shards(workers, shards, options, order.config.clock())
    found = {}
    for number, shard_round in enumerate(rounds_of(plan, order.shards, options, began)):
        if shard_round is not None or order.is_endless:
            found[number] = shard_round or Round(began, 0, 0)
            keep_round(shards[number].arguments, found[number])
    logger.info(
        "of %s known or begun with, %d are to be visited in %s; skipped: %d gone, %d below the "
        "threshold, %d over budget",
        counted(plan.known, "page"),
        len(plan),
        counted(len(found), "shard"),
        plan.waiting,
        plan.below_threshold,
        plan.left_out,
    )
    return found


def _starts_of(order: Order) -> Sequence[StartPages | None]:
    """Return what the spider begins with in each shard; None where it is all that the state knows."""
    if issubclass(order.spider, ScholarSpider):
        if order.arguments.get("seeds") == "state":
            return [None] * order.shards
        found = _of_seed_file(order)
    else:
        found = _of_start(order)
    _, first = np.unique(found["page_id"], return_index=True)
    found = found[np.sort(first)]
    kind, revisits = kind_of(order.spider.name), order.config.revisit is not None
    mine = [found[found["shard"] == number] for number in range(order.shards)]
    return [StartPages(pages["page_id"], pages["site"], kind, revisits) for pages in mine]


def _of_seed_file(order: Order) -> np.ndarray:
    source = order.arguments.get("seeds", "")
    if source in {"", "-"}:
        raise HacsError("hacs crawl scholar needs a file of seeds, or the state: -a seeds=FILE")
    rows = (start_of(page_id_of(url), url, order.shards) for url in read_seeds(source))
    return np.fromiter(rows, START)


def _of_start(order: Order) -> np.ndarray:
    """Return what `start()` yields, which a process of its own reads."""
    with TemporaryDirectory(prefix="hacs-") as folder:
        file = Path(folder, "pages")
        reading = StartReading(
            order.spider.name, {**order.arguments}, {**order.settings}, order.shards, str(file)
        )
        try:
            done = subprocess.run(
                [sys.executable, "-m", "hacs_crawler.parts.shards.start_pages"],
                input=msgspec.json.encode(reading) + b"\n",
                stderr=subprocess.PIPE,
                timeout=MOST_SECONDS + BLOCKED_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            msg = f"start() of {order.spider.name} let nothing else run for {MOST_SECONDS:g} s"
            raise HacsError(msg) from None
        if done.returncode not in {0, CUT_SHORT} or not file.exists():
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            said = lines[-1] if lines else f"its process ended with status {done.returncode}"
            raise HacsError(f"start() of {order.spider.name} could not be read: {said[:300]}")
        found = np.fromfile(file, START)
    if done.returncode == CUT_SHORT:
        logger.warning(
            "start() of %s had not ended after %s: the budget is split by the pages it named so far",
            order.spider.name,
            counted(len(found), "page"),
        )
    return found
