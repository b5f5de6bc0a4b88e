"""Errors that are the user's to mend: one clear line each, exit code 2."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

#: Characters of a value that an error line shows, and of the whole line.
MOST_SHOWN, MOST_LINE = 200, 2000
#: A list of more numbers than a line is for.
_NUMBER = r"[-+.\de]+"
_NUMBERS = re.compile(rf"{_NUMBER}(?:,\s*{_NUMBER}){{20,}}")
_LONG_WORD = re.compile(rf"\S{{{MOST_SHOWN + 1},}}")
_NUMPY_SCALAR = re.compile(r"\bnp\.\w+\(([^()]*)\)")


class InputError(ValueError):
    """Bad input. The message names the key or argument, what was given and what is allowed.

    Numbers of NumPy read as plain ones (-1.0, not np.float64(-1.0)), arrays stand in the one line, and long
    lists of numbers are shortened.
    """

    def __init__(self, message: object = ""):
        text = re.sub(r"\s*\n\s*", " ", _NUMPY_SCALAR.sub(r"\1", str(message)))
        super().__init__(_NUMBERS.sub(_ends, text))


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


def meant(word: Any, names: Iterable[str], shown: Mapping[str, str] | None = None) -> str:
    """Return " (did you mean NAME?)" for the name that is most like ``word``, or "" where none is like it.

    ``shown`` has names as the user writes them, where they differ.
    """
    import difflib  # late: only errors need it

    def parts(text: str) -> set[str]:
        return {part for part in re.split(r"[^a-z0-9.]+", text) if re.search(r"\d", part)}

    low = {name.lower(): name for name in names}
    text = str(word)[:MOST_SHOWN].lower()
    close = difflib.get_close_matches(text, low, n=1)
    close = close or [name for name in low if name.startswith(text[:60]) and len(text) > 1]
    close = close or [name for name in low if parts(name) & parts(text)]
    return f" (did you mean {(shown or {}).get(low[close[0]], low[close[0]])}?)" if close else ""


def not_one_of(value: Any, names: Iterable[str], first: str = "") -> str:
    """Return "VALUE given (did you mean NAME?); allowed: …", ``first`` before all names."""
    names = list(names)
    return f"{show(value)} given{meant(value, names)}; allowed: {', '.join([first] * bool(first) + names)}"


def require(right: object, key: str, actual: object, allowed: object) -> None:
    """Refuse what a key or argument was given, in one line, unless it is right."""
    if not right:
        raise InputError(f"{key}: {actual}; allowed: {allowed}")


def choice(key: str, value: str, allowed: Collection[str]) -> None:
    """Refuse a value that is not one of those allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{key}: {not_one_of(value, allowed)}")


def quoted(value: Any, most: int = 60) -> str:
    """A Python value as one short line; a whole number of too many digits in words."""
    try:
        return cut(visible(" ".join(repr(value).splitlines())), most)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return "a number with too many digits"


def show(value: Any) -> str:
    """What the user gave, as one short line for an error."""
    try:
        plain = lambda v: v.item() if hasattr(v, "item") and v.shape == () else str(v)  # noqa: E731
        text = json.dumps(value, ensure_ascii=False, default=plain)
    except (ValueError, RecursionError):  # Python writes no whole number of more than 4300 digits
        return "a number with too many digits" if isinstance(value, int) else "a value too large to show"
    return visible(text if len(text) <= 60 else text[:57] + "...")


def one_value(values: Any) -> str:
    """Say that a list was given where one value is allowed."""
    return f"one value is allowed, a list of {len(values)} was given"


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
