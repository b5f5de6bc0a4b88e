"""Words of our own, which nobody can look up, stand neither in code nor in docs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = "src", "tests", "tools", "benchmarks", "plugins", "examples"
#: Forbidden in code, strings, comments and docs; what to say instead.
EVERYWHERE = {
    "patience": "timeout",
    "arrival arrivals": "staging buffer",
    "room rooms": "package, or space",
    "shell shells": "split-density layers",
    "fused.pass fused.passes axis_passes plane_passes row_passes column_passes": "fused kernel",
    "segment segments": "check interval",
    "stand-in stand-ins stand_in stand_ins": "fake",
}
#: Forbidden in identifiers, which are nouns; in sentences, such as names of tests, most are English verbs.
IDENTIFIERS = {
    "found given asked": "result, input, options, or what it is",
    "place places": "address, position",
    "way ways": "route, variant",
    "offer offers": "transport's description",
    "stores storing": "one-sided",
    "share shares": "local part, fraction",
}
#: What stays: options, keys and files that users have, others' words, terms of the field.
ALLOWED = re.compile(
    r"""["'](rooms|arrivals?)["'] | --rooms\b | \brooms:\ [0-9{] | `(--)?rooms?`
    | get_segments | (vader|sm)_segment | from\ hypothesis.* | @given | DRAWN\ =\ given | NotFound
    | [Ii]n_?[Pp]lace | IN_PLACE | out_of_place | fair_shares? | shares?_memory | _share_[a-z]+
    | (on|of)\ arrival | arrival\ time | (?<=\()arrival\b | \barrival\ =
    | ^.*(shell\ script|[oaA]\ shell\ (has|that|of)|small\ shell|by\ a\ shell|of\ a\ shell|this\ shell
         |as\ shells|POSIX\ shells|without_its_shell|\bshell\ =|\(shell,).*""",
    re.VERBOSE,
)
_LITERALS = re.compile(r'"{3}[\s\S]*?"{3}|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#.*|//.*|def test_.*')


def pattern(table):
    """The words alone, and as parts of names in snake_case, CamelCase and CAPITALS."""
    words = [word for line in table for word in line.split()]
    small, first, capitals = ("|".join(map(form, words)) for form in (str.lower, str.capitalize, str.upper))
    return re.compile(
        rf"(?<![A-Za-z])({small})(?![a-z])|(?<![A-Z])({first})(?![a-z])|(?<![A-Za-z])({capitals})(?![A-Za-z])"
    )


def faults(table, path):
    """Forbidden words in a file, with their lines: in all of it, or in its identifiers."""
    text, words = path.read_text(encoding="utf-8"), pattern(table)
    if table is IDENTIFIERS:
        text = _LITERALS.sub(lambda match: "\n" * match.group().count("\n"), text)
    lines = text.splitlines() if words.search(text) else []
    for number, line in enumerate(lines, 1):
        if words.search(line):
            for match in words.finditer(ALLOWED.sub("", line)):
                yield f"{path.relative_to(ROOT)}:{number}: {match.group()}"


def files(suffixes, *folders):
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    return sorted(path for path in paths if path.suffix in suffixes and path.name != Path(__file__).name)


@pytest.mark.parametrize(
    ("table", "paths"),
    [
        (EVERYWHERE, files((".py", ".cu"), *CODE)),
        (EVERYWHERE, [*files((".md",), "docs"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]),
        (IDENTIFIERS, files((".py", ".cu"), *CODE, "papers")),
    ],
    ids=["code", "docs", "identifiers"],
)
def test_words(table, paths):
    assert [fault for path in paths for fault in faults(table, path)] == []


def test_faults_are_seen(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "some.py"
    text = '"""Two rooms: a Shell."""\nkerr_shell, PlaceOf(way)\n'
    path.write_text(text + "PASS(kwayside, x=asked_for, MOST_ROOMS=SHARED)  # given\n")
    everywhere = [fault.split(": ")[1] for fault in faults(EVERYWHERE, path)]
    assert everywhere == ["rooms", "Shell", "shell", "ROOMS"]
    assert [fault.split(": ")[1] for fault in faults(IDENTIFIERS, path)] == ["Place", "way", "asked"]
