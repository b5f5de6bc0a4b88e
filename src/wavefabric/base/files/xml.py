"""Read untrusted XML files of other programs, without document types or custom entities."""

import re
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser
from xml.parsers import expat

from wavefabric.base.errors import InputError, show

#: Maximum nesting depth; files in the formats read here are not deeper.
_DEEPEST = 64
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


class _Builder(TreeBuilder):
    """A tree builder that refuses a document type (and so custom entities) and too deep nesting."""

    def __init__(self, key: str):
        super().__init__()
        self._key, self._depth = key, 0

    def start(self, tag, attrs):
        self._depth += 1
        if self._depth > _DEEPEST:
            fault = f"nested more than {_DEEPEST} deep"
            raise InputError(f"{self._key}: {fault}; allowed: a file of that format")
        return super().start(tag, attrs)

    def end(self, tag):
        self._depth -= 1
        return super().end(tag)

    def doctype(self, *_) -> None:
        fault = "a document type (DOCTYPE) given"
        raise InputError(f"{self._key}: {fault}; allowed: elements and comments alone")


def parse_xml(text: str, key: str) -> Element:
    """Return the root element of XML text; ``key`` names the format in errors."""
    parser = XMLParser(target=_Builder(key))
    try:
        parser.feed(text)
        return parser.close()
    except ParseError as error:
        where = "line {}, column {}".format(*error.position)
        fault = f"not XML ({expat.ErrorString(error.code)} at {where})"
    except UnicodeEncodeError:
        fault = "not text that can be encoded"
    raise InputError(f"{key}: {fault}; allowed: well-formed XML")


def text_of(element: Element, key: str, name: str) -> str:
    """Return the attribute ``name`` of an XML element; `InputError` if there is none."""
    value = element.get(name)
    if value is None:
        raise InputError(f"{key}: no attribute {name}; allowed: one")
    return value


def one_of(element: Element, key: str, name: str, allowed: tuple[str, ...]) -> str:
    """Return the attribute ``name`` of an XML element; `InputError` unless it is in ``allowed``."""
    value = text_of(element, key, name)
    if value not in allowed:
        raise InputError(f"{key} {name}: {show(value)}; allowed: {', '.join(allowed)}")
    return value


def whole_of(element: Element, key: str, name: str, low: int, high: int, default: int | None = None) -> int:
    """Return the attribute ``name`` of an XML element as int, or ``default`` if the attribute is missing.

    `InputError`, which begins with ``key``, unless it is a whole number from ``low`` to ``high``.
    """
    value = element.get(name)
    if value is None and default is not None:
        return default
    value = text_of(element, key, name)
    if not _WHOLE.fullmatch(value.strip()) or not low <= int(value) <= high:
        raise InputError(f"{key} {name}: {show(value)}; allowed: whole numbers from {low} to {high}")
    return int(value)
