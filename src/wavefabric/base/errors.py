"""Define the exceptions of the package, and format values and names for their one-line messages."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

#: Maximum characters of a value in an error line, and of the whole line.
MOST_SHOWN, MOST_LINE = 200, 2000
#: Matches a list of more than 20 numbers, which is too long for one line.
_NUMBER = r"[-+.\de]+"
_NUMBERS = re.compile(rf"{_NUMBER}(?:,\s*{_NUMBER}){{20,}}")
_LONG_WORD = re.compile(rf"\S{{{MOST_SHOWN + 1},}}")
_NUMPY_SCALAR = re.compile(r"\bnp\.\w+\(([^()]*)\)")


class InputError(ValueError):
    """Raised for invalid input. The message names the key or argument, the given value and what is allowed.

    NumPy's numbers are written as plain ones (-1.0, not np.float64(-1.0)), arrays on one line, and long lists
    of numbers are shortened.
    """

    def __init__(self, message: object = ""):
        text = re.sub(r"\s*\n\s*", " ", _NUMPY_SCALAR.sub(r"\1", str(message)))
        super().__init__(_NUMBERS.sub(_ends, text))


class FieldLost(InputError):
    """Raised if the simulated field is not finite or grows without bound, such as after too long a step."""


class UnusableCheckpoint(InputError):
    """Raised for a checkpoint that is damaged or belongs to another run; the user may remove the file."""


class LateRank(RuntimeError):
    """Raised if a rank timed out in an exchange: the data are lost, and the exchange cannot be used again."""


class MissingExtra(ImportError):
    """Raised if an optional dependency is missing. The message names the extra that installs it."""

    def __init__(self, feature: str, extra: str):
        super().__init__(f"{feature} needs an optional package: pip install 'wavefabric[{extra}]'")


def cut(text: str, most: int = MOST_SHOWN) -> str:
    """Return text shortened to ``most`` characters by removing its middle, since paths differ at the end."""
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 3]}...{text[len(text) - end :]}"


def _ends(numbers: re.Match[str]) -> str:
    """Return a matched list of numbers shortened to its first four numbers, their count and the last one."""
    words = numbers[0].split(",")
    return f"{','.join(words[:4])}, ... ({len(words)} numbers),{words[-1]}"


def visible(text: str) -> str:
    """Return text with control characters as escapes (``\\x1b``), so that a terminal does not act on them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def did_you_mean(word: Any, names: Iterable[str], spellings: Mapping[str, str] | None = None) -> str:
    """Return " (did you mean NAME?)" for the name that is most similar to ``word``, or "" if none is similar.

    ``spellings`` maps names to the way users write them, if that differs.
    """
    import difflib  # imported late: only errors need it

    def parts(text: str) -> set[str]:
        return {part for part in re.split(r"[^a-z0-9.]+", text) if re.search(r"\d", part)}

    low = {name.lower(): name for name in names}
    text = str(word)[:MOST_SHOWN].lower()
    close = difflib.get_close_matches(text, low, n=1)
    close = close or [name for name in low if name.startswith(text[:60]) and len(text) > 1]
    close = close or [name for name in low if parts(name) & parts(text)]
    return f" (did you mean {(spellings or {}).get(low[close[0]], low[close[0]])}?)" if close else ""


def not_one_of(value: Any, names: Iterable[str], first: str = "") -> str:
    """Return the text "VALUE given (did you mean NAME?); allowed: NAMES", with ``first`` before the names."""
    names = list(names)
    allowed = ", ".join([first] * bool(first) + names)
    return f"{show(value)} given{did_you_mean(value, names)}; allowed: {allowed}"


def ensure(right: object, key: str, actual: object, allowed: object) -> None:
    """Raise `InputError` "KEY: ACTUAL; allowed: ALLOWED" unless the condition ``right`` is true."""
    if not right:
        raise InputError(f"{key}: {actual}; allowed: {allowed}")


def require(right: object, key: str, value: Any, allowed: str) -> None:
    """Raise `InputError` "KEY: VALUE; allowed: ALLOWED" unless the condition ``right`` is true."""
    if not right:
        ensure(False, key, show(value), allowed)


def choice(key: str, value: str, allowed: Collection[str]) -> None:
    """Raise `InputError` if ``value``, given for ``key``, is not one of the texts in ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{key}: {not_one_of(value, allowed)}")


def choices(key: str, values: Iterable[str], allowed: Collection[str]) -> None:
    """Raise `InputError` for the first of ``values``, given for ``key``, that is not in ``allowed``."""
    for value in values:
        choice(key, value, allowed)


def quoted(value: Any) -> str:
    """Return the Python notation (``repr``) of a value as one line of at most 60 characters."""
    try:
        return cut(visible(" ".join(repr(value).splitlines())), 60)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return "a number with too many digits"


def show(value: Any) -> str:
    """Return a value in JSON notation as one line of about 60 characters at most, for an error message."""
    try:
        plain = lambda v: v.item() if hasattr(v, "item") and v.shape == () else str(v)  # noqa: E731
        text = json.dumps(value, ensure_ascii=False, default=plain)
    except (ValueError, RecursionError):  # Python writes no whole number of more than 4300 digits
        return "a number with too many digits" if isinstance(value, int) else "a value too large to show"
    return visible(text if len(text) <= 60 else text[:57] + "...")


def one_value(values: Any) -> str:
    """Return text that says that a list was given where one value is allowed."""
    return f"one value is allowed, a list of {len(values)} was given"


def one_line(message: str, values: Iterable[str] = ()) -> str:
    """Return a message as one line that is safe to print, with control characters escaped.

    Words of the message, and texts of ``values`` in it (such as command-line arguments), are cut at
    `MOST_SHOWN` characters, the whole line at `MOST_LINE`.
    """
    for value in values:
        if len(value) > MOST_SHOWN:
            message = message.replace(value, cut(value))
    line = visible(" ".join(message.split()))
    return cut(_LONG_WORD.sub(lambda word: cut(word[0]), line), MOST_LINE)
