"""Switches the add-on on in every Scrapy of a Python that has this folder in PYTHONPATH.

It becomes a default of Scrapy's own, so that the subprocesses of Scrapy's tests have it too. Each set
of settings gets a state of its own, in the folder that SCRAPY_TESTS_STATES names: no test learns of
another.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

DEFAULTS = "scrapy.settings.default_settings"


class _WithOwnState(ModuleType):
    @property
    def HACS_STATE(self) -> str:  # noqa: N802 - the name of a setting
        return f"sqlite:///{os.environ['SCRAPY_TESTS_STATES']}/{uuid.uuid4().hex}.db"


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.__dict__["ADDONS"] = {"hacs_crawler.addon.HacsAddon": 500}
        module.__dict__["HACS_STATE"] = None  # only so that dir() names it
        module.__class__ = _WithOwnState


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != DEFAULTS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


sys.meta_path.insert(0, _Finder())
