"""Every option of every command is used by a golden, and each golden is a command that there is."""

import sys
from pathlib import Path

import click
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from outputs import groups

from wavefabric.cli import app
from wavefabric.cli.common.options import Invocation


def leaves(command, path=()):
    """Commands by their words."""
    if isinstance(command, click.Group):
        context = click.Context(command, obj=Invocation([]))
        for name in command.list_commands(context):
            yield from leaves(command.get_command(context, name), (*path, name))
    else:
        yield path, command


COMMANDS = dict(leaves(app))


def command_of(words):
    """The command that some words call."""
    for path in (tuple(words[:2]), tuple(words[:1]), (words[0], "simulate")):  # the last is a group's own
        if path in COMMANDS:
            return path
    raise AssertionError(f"no command: {words}")


def used():
    """Of each command the words of all goldens that call it."""
    words: dict[tuple, set] = {path: set() for path in COMMANDS}
    for group in groups().values():
        for command in group:
            if command.words[0] == "python":
                continue
            words[command_of(command.words)] |= {word.partition("=")[0] for word in command.words}
    return words


USED = used()


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_has_a_golden(path):
    options = [each for each in COMMANDS[path].params if isinstance(each, click.Option)]
    names = [{*each.opts, *each.secondary_opts} for each in options]
    missing = [sorted(each)[-1] for each in names if not each & USED[path]]
    assert missing == [] or missing == ["--help"]
