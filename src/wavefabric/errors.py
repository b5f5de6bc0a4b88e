"""Errors that are the user's to mend: one clear line each, exit code 2."""

import json
import re
from collections.abc import Iterable
from typing import Any

#: Characters of a value that an error line shows, and of the whole line.
MOST_SHOWN, MOST_LINE = 200, 2000
#: A list of more numbers than a line is for.
_NUMBER = r"(?:np\.\w+\()?[-+.\de]+\)?"
_NUMBERS = re.compile(rf"{_NUMBER}(?:,\s*{_NUMBER}){{20,}}")
_LONG_WORD = re.compile(rf"\S{{{MOST_SHOWN + 1},}}")


class InputError(ValueError):
    """Bad input. The message names the key or argument, what was given and what is allowed.

    Long lists of numbers in it are shortened, and so is all of it.
    """

    def __init__(self, message: object = ""):
        super().__init__(cut(_NUMBERS.sub(_ends, str(message)), MOST_LINE))


class FieldLost(InputError):
    """The field is not finite or grows without bound: the step is too long, or the input too strong."""


class UnusableCheckpoint(InputError):
    """A checkpoint that is damaged or of another run: it must be removed for a run that starts anew."""


class LateRank(RuntimeError):
    """A rank did not come to an exchange in time. Its data are lost; the exchange cannot be used again."""


class MissingExtra(ImportError):
    """An optional dependency is absent. The message names the extra that brings it."""

    def __init__(self, what: str, extra: str):
        super().__init__(f"{what} needs an optional package: pip install 'wavefabric[{extra}]'")


def cut(text: str, most: int = MOST_SHOWN) -> str:
    """Text of at most so many characters; what is longer loses its middle, since paths differ at the end."""
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 3]}...{text[len(text) - end :]}"


def _ends(numbers: re.Match[str]) -> str:
    """The first and the last of a list of numbers."""
    words = numbers[0].split(",")
    return f"{','.join(words[:4])}, ... ({len(words)} numbers),{words[-1]}"


def visible(text: str) -> str:
    """Text that a terminal shows and does not obey: control characters as escapes (``\\x1b``)."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def quoted(value: Any, most: int = 60) -> str:
    """A Python value as one short line; a whole number of too many digits in words."""
    try:
        return cut(visible(repr(value)), most)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return "a number with too many digits"


def show(value: Any) -> str:
    """What the user gave, as one short line for an error."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):  # Python writes no whole number of more than 4300 digits
        return "a number with too many digits" if isinstance(value, int) else "a value too large to show"
    return visible(text if len(text) <= 60 else text[:57] + "...")


def one_line(message: str, values: Iterable[str] = ()) -> str:
    """A message as one line that is safe to print, with control characters escaped.

    Its words, and the values of ``values`` in it (such as words of the command line), are cut at `MOST_SHOWN`
    characters, the whole at `MOST_LINE`.
    """
    for value in values:
        if len(value) > MOST_SHOWN:
            message = message.replace(value, cut(value))
    line = visible(" ".join(message.split()))
    return cut(_LONG_WORD.sub(lambda word: cut(word[0]), line), MOST_LINE)
