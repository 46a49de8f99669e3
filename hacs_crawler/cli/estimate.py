"""`hacs estimate`: the rates of all pages anew, in a run that can be stopped and goes on later."""

from __future__ import annotations

import typer

from hacs_crawler.cli.common import Set, Shards, opened, place_of, showing, signals_noted
from hacs_crawler.exceptions import StateError
from hacs_crawler.state import advanced, new_run, states_in, stopped_run
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)


def estimate(shards: Shards = None, settings: Set = None) -> None:
    """Fit the prior, and estimate every page's rate anew with it.

    Of all pages of the state, as the first log line says. Wanted after a change of HACS_ESTIMATOR or
    HACS_FADE_DAYS (the end of the next crawl does it too). Crawls may go on meanwhile. A run that
    was stopped (Ctrl-C) or killed goes on where it was when it is started again with the same settings.
    """
    with opened(settings, shards, writes=True) as (config, state), signals_noted() as asked:
        logger.info("estimating %s of %s", counted(state.store.count(), "page"), place_of(config))
        pages = changed = damaged = 0
        for shard in states_in(state):
            run = stopped_run(shard) or new_run(shard)
            with Progress("estimate") as progress:
                show = showing(progress, shard)
                run, is_whole = advanced(shard, run, show, lambda: bool(asked.number))
            pages, changed = pages + run.pages - run.damaged, changed + run.changed
            damaged += run.damaged
            if not is_whole:
                done = counted(pages + damaged, "page")
                logger.info("stopped after %s; the same command goes on from there", done)
                raise typer.Exit(128 + asked.number)
        if damaged:
            msg = f"{counted(pages, 'page')} estimated, {damaged} damaged left out"
            raise StateError(msg)
        logger.info("%s estimated, %d of them changed", counted(pages, "page"), changed)
