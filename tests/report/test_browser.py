"""Pages in a browser: nothing on the console, nothing from a network, phones, keyboards, dark and light."""

import shutil

import browser
import pytest

from wavefabric.report import write_report

pytestmark = pytest.mark.skipif(browser.program() is None, reason="no Chromium here")
#: Contrast of texts with what is behind them (WCAG 2): the least of the page, with its text.
CONTRAST = """(() => {
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(c)) return c; } return "rgb(255,255,255)"; };
  let least = [99, ""];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("script, title, head, canvas") || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), b = light(behind(e));
    const a = light(e.closest("svg") ? style.fill : style.color);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < least[0]) least = [ratio, e.textContent.slice(0, 40)];
  }
  return least;
})()"""

#: Where the lowest tile of the first screen begins, or the first card, and the values of a canvas added up.
LOWEST = """Math.max(...[...document.querySelectorAll(".tile, .card:first-child")]
  .map(e => e.getBoundingClientRect().top))"""
SUM = """(() => { const c = document.querySelector(".slice canvas");
  return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.reduce((a, b) => a + b, 0); })()"""
DARKER = """(() => { const gain = document.querySelector(".gain");
  gain.value = 10; gain.dispatchEvent(new Event("input")); })()"""


@pytest.fixture(scope="module")
def pages(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name in ("link.h5", "wave.h5", "ring.json", "tuning.json", "compare.json", "plan.json"):
        shutil.copy(results / name, folder)
    return write_report(folder, fabric="lightpath:2x2").pages


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser.browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page(tab, pages, scheme):
    assert len(pages) == 7
    for page in pages:
        for width in (1280, 400):
            tab.open(page, width, 800, scheme)
            assert tab.errors == [], page.name
            assert tab.value("document.scrollingElement.scrollWidth") <= width, page.name
            assert 0 < tab.value(LOWEST) < 800, page.name  # the first screen has them
            ratio, text = tab.value(CONTRAST)
            assert ratio >= 4.5, (page.name, scheme, text)


def test_the_keyboard_moves_a_slider(tab, pages):
    tab.open(next(page for page in pages if page.stem == "wave"))
    tab.value("document.querySelector('.slice input').focus()")
    picture = "document.querySelector('.slice canvas').toDataURL()"
    before, value = tab.value(picture), int(tab.value("document.activeElement.value"))
    tab.key("ArrowRight", "ArrowRight", 39)
    assert int(tab.value("document.activeElement.value")) == value + 1
    assert tab.value(picture) != before
    assert tab.value("document.activeElement.getAttribute('aria-valuetext')").startswith("x = ")
    tab.key(" ", "Space", 32, " ")
    moved = "new Promise(done => setTimeout(() => done(document.activeElement.value), 400))"
    assert int(tab.value(moved)) != value + 1
    tab.key(" ", "Space", 32, " ")
    assert tab.value("document.querySelector('.play').getAttribute('aria-label')") == "play"
    assert tab.errors == []


def test_colours_that_end_lower_are_brighter(tab, pages):
    tab.open(next(page for page in pages if page.stem == "wave"))
    before = tab.value(SUM)
    tab.value(DARKER)
    assert tab.value(SUM) > 1.01 * before
    assert "0.02 MPa" in tab.value("document.querySelector('.scale').textContent")


def test_the_theme_is_chosen_by_a_button(tab, pages):
    tab.open(pages[0])
    colour = "getComputedStyle(document.body).backgroundColor"
    light = tab.value(colour)
    tab.value("document.getElementById('theme').focus()")
    for _ in range(2):  # light, dark
        tab.key("Enter", "Enter", 13, "\r")
    assert tab.value(colour) != light
    assert tab.value("document.getElementById('theme').textContent").endswith("dark")
    tab.value("localStorage.clear()")


def test_rounds_play_in_their_frame(tab, pages):
    tab.open(next(page for page in pages if page.stem == "ring"))
    inside = "document.querySelector('iframe').contentDocument"
    assert tab.value(f"{inside}.getElementById('title').textContent").startswith("ring all-reduce")
    assert tab.value(f"{inside}.querySelectorAll('.tile').length") == 4
    assert tab.value(f"{inside}.querySelectorAll('.circuit').length") > 0


def test_an_error_on_the_console_is_seen(tab, tmp_path):
    (tmp_path / "x.html").write_text("<script>console.error('a'); nothing.here</script><img src='no.png'>")
    tab.open(tmp_path / "x.html")
    assert len(tab.errors) >= 2
