"""MkDocs hook: equations as MathML, which browsers typeset by themselves, so that pages need no network."""

import html
import re

from latex2mathml.converter import convert

_EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_) -> str:
    """Replace what `pymdownx.arithmatex` marked."""

    def typeset(match: re.Match) -> str:
        display = "block" if match[1] == "div" else "inline"
        return f"<{match[1]}>{convert(html.unescape(match[2]).strip(), display=display)}</{match[1]}>"

    return _EQUATION.sub(typeset, content)
