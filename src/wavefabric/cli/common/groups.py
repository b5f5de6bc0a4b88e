"""Groups of commands whose modules are imported only when one of them is asked for."""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import Any

import typer
import typer.core
import typer.main


def lazy_group(app: typer.Typer, name: str, module: str, help: str) -> None:
    """Add the commands of ``module.app`` to an app, as a group of that name."""

    class Group(typer.core.TyperGroup):
        @cached_property
        def _loaded(self) -> Any:
            return typer.main.get_group(importlib.import_module(module).app)

        @property
        def commands(self) -> Any:
            return self._loaded.commands

        @commands.setter
        def commands(self, value: Any) -> None:
            """There are none before the module is imported."""

    app.add_typer(typer.Typer(name=name, help=help, cls=Group, no_args_is_help=True))
