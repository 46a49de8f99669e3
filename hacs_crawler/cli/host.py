"""`hacs show HOST` and `hacs forget HOST`: what is left out of a host's links."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from hacs_crawler.cli.common import Set, opened, say
from hacs_crawler.links import Varying
from hacs_crawler.state import State, forget_varying, read_varying
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)


def show_host(state: State, host: str, *, json_: bool) -> None:
    """Show which parts of a host's links change with every request, as far as is known."""
    known = read_varying(state).get(host, Varying(host))
    if json_:
        typer.echo(json.dumps({"host": host, **known.to_json()}, indent=2))
        return
    say(host)
    if not known.parts and not known.suspected:
        say("  nothing is left out of its links")
    if known.parts:
        left_out = ", ".join(map(str, sorted(known.parts)))
        say(f"  left out of its links, as control visits showed other ones each time: {left_out}")
        say(f"  `hacs forget {host}` takes them for parts of its links again")
    if known.suspected:
        suspected = ", ".join(map(str, sorted(known.suspected)))
        say(f"  may be left out after another control visit: {suspected}")


def forget(
    host: Annotated[str, typer.Argument(help="a host, as in its pages' URLs: www.example.org")],
    settings: Set = None,
) -> None:
    """Take all parts of a host's links for its own again, also those that changed with every request.

    The next visit of each of its pages is a baseline.
    """
    with opened(settings, writes=True) as (_, state):
        found = forget_varying(state, host.lower())
        if found is None or not found.parts:
            logger.info("nothing was left out of the links of %s", host)
            return
        logger.info(
            "%s are parts of the links of %s again", ", ".join(map(str, sorted(found.parts))), host
        )
