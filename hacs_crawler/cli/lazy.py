"""A group of commands that are imported when they are run: `hacs --help` needs none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True, slots=True)
class Entry:
    """A command as a list shows it: where its function or its own group is, and what it is for.

    `place` is "module:name" below `hacs_crawler.cli`, `aim` what a user wants who looks for it.
    """

    place: str
    aim: str
    summary: str

    def load(self, name: str) -> Any:
        """Import the command, and return it as click takes it."""
        module, _, attribute = self.place.partition(":")
        found = getattr(import_module(f"hacs_crawler.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            app = typer.Typer(add_completion=False)
            app.command(name)(found)
            found = app
        command = typer.main.get_command(found)
        command.name = name
        return command


def lazy_group(entries: Mapping[str, Entry]) -> type[TyperGroup]:
    """Return the class of a group with these commands, beside those that are added to it as ever."""

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            stubs: dict[str, Any] = {
                name: TyperCommand(name, help=entry.summary, rich_help_panel=entry.aim)
                for name, entry in entries.items()
            }
            self.commands = {**stubs, **self.commands}

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, command, rest = super().resolve_command(ctx, args)
            is_stub = name in entries and type(command) is TyperCommand and not command.callback
            return name, entries[name].load(name) if name and is_stub else command, rest

    return LazyGroup
