"""Replace characters that a terminal lacks by the nearest ones, so that printing never fails."""

import codecs
import io
import os
import re
import sys
import unicodedata

_ERRORS = "wavefabric-nearest"
_ASCII = "wavefabric-ascii"
#: Replacements of characters for which neither the Unicode name nor the decomposition gives a good one.
_NEAREST = {
    **{"Δ": "d", "µ": "u", "μ": "u", "×": "x", "·": "*", "−": "-", "–": "-", "—": "-", "…": "..."},
    **{"⁻": "^-", "√": "sqrt ", "→": "->", "≤": "<=", "≥": ">=", "≈": "~", "±": "+-", "°": " deg"},
    **{"⌈": "ceil(", "⌉": ")", "⌊": "floor(", "⌋": ")", "‖": "||", "“": '"', "”": '"', "’": "'"},
}


def nearest(character: str) -> str:
    """Return ASCII for a character: ``d`` for ``Δ``, beta for ``β``, x for ``×``, e for ``é``; else "?".

    A byte of a file name that cannot be decoded becomes ``\\xNN``.
    """
    if character in _NEAREST:
        return _NEAREST[character]
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    name_words = unicodedata.name(character, "").split()
    if name_words[:1] == ["GREEK"] and "LETTER" in name_words:
        name = name_words[name_words.index("LETTER") + 1]
        return name.title() if "CAPITAL" in name_words else name.lower()
    if name_words[:2] == ["BOX", "DRAWINGS"]:
        return "-" if name_words[-1] == "HORIZONTAL" else "|" if name_words[-1] == "VERTICAL" else "+"
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    raised = "^" if unicodedata.decomposition(character).startswith("<super>") else ""
    return raised + plain if plain else "?"


def print_anywhere() -> None:
    """Ensure that printing never fails because of a missing character or a closed stream (``>&-``)."""
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if getattr(sys, name) is None:
            # Occupies the free descriptor: else libraries would print into a file that is opened later.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            ascii_only = codecs.lookup(stream.encoding).name == "ascii"
            # Click writes UTF-8 to a stream whose encoding is named ASCII, so this codec has another name.
            stream.reconfigure(encoding=_ASCII if ascii_only else None, errors=_ERRORS)


def _handle(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = ""
    for character in error.object[error.start : error.end]:
        try:
            text += character.encode(error.encoding, "strict").decode(error.encoding)
        except UnicodeError:
            text += nearest(character)
    # 10⁻¹² becomes 10^-12, with one "^".
    return re.sub(r"(?<=[-\d])\^", "", text), error.end


def _search(name: str) -> codecs.CodecInfo | None:
    if name.replace("_", "-") != _ASCII:
        return None
    plain = codecs.lookup("ascii")
    return codecs.CodecInfo(*plain, plain.incrementalencoder, plain.incrementaldecoder, name=_ASCII)


codecs.register_error(_ERRORS, _handle)
codecs.register(_search)
