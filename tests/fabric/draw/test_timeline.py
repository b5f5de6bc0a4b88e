"""Pictures of what kernels do through time."""

import re
from dataclasses import replace

import matplotlib as mpl
import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives.plans.plan import compile_plan
from wavefabric.collectives.registry import build
from wavefabric.fabric import load
from wavefabric.fabric.draw.pictures import draw_timeline


def test_a_picture_names_what_it_shows(tmp_path):
    plan = compile_plan(build("recursive", "all-reduce", 4, 8, radix=4), "signals")
    with mpl.rc_context({"svg.fonttype": "none"}):  # text, not outlines
        path = draw_timeline(plan, load("hgx-h200"), 1 << 20, tmp_path / "plan.svg")
    text = re.sub("<[^>]*>", "", path.read_text("utf-8"))
    for words in (
        "recursive all-reduce, radix 4",
        "hgx-h200, signals, ",
        "rank 3",
        "add and put",
        "put 6 MiB",
    ):
        assert words in text
    with pytest.raises(InputError, match=r"plan\.svg"):
        draw_timeline(plan, load("hgx-h200"), 1 << 20, path)


def test_what_cannot_be_drawn_is_refused(tmp_path):
    plan = compile_plan(build("ring", "all-reduce", 4, 8))
    with pytest.raises(InputError, match="ring:4 says nothing of kernels"):
        draw_timeline(plan, load("ring:4"), 4, tmp_path / "a.png")
    with pytest.raises(InputError, match=r"a\.gif given"):
        draw_timeline(plan, load("hgx-h200"), 4, tmp_path / "a.gif")
    many = compile_plan(build("direct", "all-gather", 40, 40))
    with pytest.raises(InputError, match="ranks: 40 given; allowed in a picture: up to 32"):
        draw_timeline(many, load("hgx-h200"), 4, tmp_path / "a.png")
    alone = compile_plan(build("ring", "all-reduce", 1, 8))
    with pytest.raises(InputError, match="ring all-reduce moves nothing; allowed in a picture: one that"):
        draw_timeline(alone, load("hgx-h200"), 4, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_a_long_title_is_cut(tmp_path):
    schedule = replace(build("ring", "all-reduce", 2, 8), name="x" * 80)
    for name, title in (("x" * 80, "x" * 80), ("x" * 81, "x" * 79 + "…")):
        with mpl.rc_context({"svg.fonttype": "none"}):
            plan = compile_plan(replace(schedule, name=name))
            path = draw_timeline(plan, load("hgx-h200"), 4, tmp_path / "a.svg", force=True)
        assert f">{title}<" in path.read_text("utf-8")
