"""XML files of other programs, read without trust: no document types, no entities of their own."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from wavefabric.errors import InputError, show

#: Deeper nesting is no file of the formats that are read here.
_DEEPEST = 64
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


def parse_xml(text: str, what: str) -> Element:
    """The root element of XML text; ``what`` is the name of the format, for errors.

    `InputError` if it is not well-formed, has a document type (and with it entities), or nests too deeply.
    """
    builder = TreeBuilder()
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise InputError(f"{what}: nested more than {_DEEPEST} deep; allowed: a file of that format")
        builder.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(name)

    def refuse(*_) -> None:
        raise InputError(f"{what}: a document type (DOCTYPE) given; allowed: elements and comments alone")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        where = f"line {error.lineno}, column {error.offset}"
        reason = expat.ErrorString(error.code)
        raise InputError(f"{what}: not XML ({reason} at {where}); allowed: well-formed XML") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{what}: not text that can be encoded; allowed: well-formed XML") from None
    return builder.close()


def text_of(element: Element, where: str, name: str, default: str | None = None) -> str:
    """An attribute; `InputError` if it is absent and there is no default."""
    value = element.get(name, default)
    if value is None:
        raise InputError(f"{where}: no attribute {name}; allowed: one")
    return value


def one_of(element: Element, where: str, name: str, allowed: tuple[str, ...]) -> str:
    """An attribute that is one of several words."""
    value = text_of(element, where, name)
    if value not in allowed:
        raise InputError(f"{where} {name}: {show(value)}; allowed: {', '.join(allowed)}")
    return value


def whole_of(element: Element, where: str, name: str, low: int, high: int, default: int | None = None) -> int:
    """An attribute that is a whole number from `low` to `high`."""
    value = element.get(name)
    if value is None and default is not None:
        return default
    value = text_of(element, where, name)
    if not _WHOLE.fullmatch(value.strip()) or not low <= int(value) <= high:
        raise InputError(f"{where} {name}: {show(value)}; allowed: whole numbers from {low} to {high}")
    return int(value)
