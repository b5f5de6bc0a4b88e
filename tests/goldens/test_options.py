"""Every option of every command is used by a golden, and each golden is a command that there is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from outputs import groups

#: Prints options by command, in a process of its own: `benchmarks` adds commands to the program.
_LIST = """
import json, click
from wavefabric.cli import app
from wavefabric.cli.common.options import Invocation

def leaves(command, path=()):
    if isinstance(command, click.Group):
        context = click.Context(command, obj=Invocation([]))
        for name in command.list_commands(context):
            yield from leaves(command.get_command(context, name), (*path, name))
    else:
        options = [each for each in command.params if isinstance(each, click.Option)]
        yield " ".join(path), [[*each.opts, *each.secondary_opts] for each in options]

print(json.dumps(dict(leaves(app))))
"""
OPTIONS = json.loads(subprocess.run([sys.executable, "-c", _LIST], capture_output=True, check=True).stdout)


def command_of(words):
    """Return the command that some words call."""
    for path in (" ".join(words[:2]), words[0], f"{words[0]} simulate"):  # the last is the default of a group
        if path in OPTIONS:
            return path
    raise AssertionError(f"no command: {words}")


def used():
    """Return the words of all goldens by the command that they call."""
    words: dict[str, set] = {path: set() for path in OPTIONS}
    for group in groups().values():
        for command in group:
            if command.words[0] != "python":
                words[command_of(command.words)] |= {word.partition("=")[0] for word in command.words}
    return words


USED = used()


@pytest.mark.parametrize("path", OPTIONS)
def test_every_option_has_a_golden(path):
    missing = [names for names in OPTIONS[path] if not {*names} & USED[path] and "--help" not in names]
    assert missing == []
