"""A visit to the page in a browser: what the tests do there, and what must hold on every visit."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

BROWSERS = ("chromium", "google-chrome", "chromium-browser")
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
# Returns the visible texts whose contrast to what is behind them is too low, as "ratio: text".
# Colours are drawn on a canvas, which knows every notation of CSS; half-transparent ones are mixed.
CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const bytes = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || !element.checkVisibility()) continue;
    if (element.closest(".only-read, :disabled, select")) continue;
    const behind = [];
    for (let node = element; node; node = node.parentElement) {
      behind.unshift(getComputedStyle(node).backgroundColor);
    }
    const [ground, ink] = [bytes(behind), bytes([...behind, getComputedStyle(element).color])];
    const [low, high] = [luminance(ground), luminance(ink)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)}: ${text.slice(0, 40)} (${element.className})`);
  }
  return bad;
}"""
# Returns the controls without a name for screen readers.
NAMELESS = """() => [...document.querySelectorAll("button, input, select, textarea, summary")]
  .filter((control) => control.checkVisibility() && !control.labels?.length
    && !(control.getAttribute("aria-label") ?? control.textContent).trim())
  .map((control) => control.outerHTML)"""
# Returns the visible headings that skip a level.
HEADINGS = """() => [...document.querySelectorAll("h1, h2, h3, h4")]
  .filter((heading) => heading.checkVisibility())
  .filter((heading, index, all) =>
    Number(heading.tagName[1]) > (index ? Number(all[index - 1].tagName[1]) : 1) + 1)
  .map((heading) => heading.textContent)"""
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def find_browser() -> str:
    """Return the path of the browser; skip the tests if there is none."""
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    pytest.skip(f"needs a browser: one of {', '.join(BROWSERS)}, such as Debian's chromium")


class Site(NamedTuple):
    """A server to visit: its address, and the model that it has for each task."""

    url: str
    models: dict[str, str]


@dataclass
class Visit:
    """An open page, and everything that went wrong in it.

    Args:
        page: of Playwright.
        url: of the site, with a slash at the end.
        problems: errors of the console and of JavaScript, and requests to other origins.
    """

    page: Any
    url: str
    problems: list[str] = field(default_factory=list)

    def open(self, model: str, mode: str | None = None) -> None:
        """Open a model by a link, and wait for its form."""
        address = {"model": model} | ({"mode": mode} if mode else {})
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}#{urlencode(address)}")
        self.page.locator("button.primary:visible").wait_for()

    def run(self, action: str = "answer") -> Any:
        """Press the button, and return the JSON of the server's reply once the page shows it."""
        with self.page.expect_response(re.compile(rf"/api/models/.+/{action}$")) as response:
            self.page.locator("form.form button.primary").click()
        self.page.locator("#panel-answer .code").wait_for()
        self.settle()
        return response.value.json()

    def settle(self) -> None:
        """Wait until no part of the page is busy, and canvases are drawn."""
        self.page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")
        self.page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))"
        )

    def open_tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name).click()
        self.settle()

    def read(self, selector: str) -> list[str]:
        """Return the texts of the elements that a CSS selector finds in the open panel."""
        return self.page.locator(f"[role=tabpanel]:visible {selector}").all_inner_texts()

    def code(self, language: str) -> str:
        self.page.locator(".code").get_by_role("radio", name=language, exact=True).check()
        return self.page.locator(".code pre").inner_text()

    def picture(self, folder: Path, name: str) -> None:
        """Save pictures, light and dark, wide and narrow, and check layout, contrast and names."""
        for width, size in (("wide", WIDE), ("narrow", NARROW)):
            self.page.set_viewport_size(size)
            for theme in ("light", "dark"):
                self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
                self.settle()
                self.page.screenshot(path=folder / f"{name}-{width}-{theme}.png", full_page=True)
                assert self.page.evaluate(CONTRAST) == [], f"{name}, {theme}"
            assert self.page.evaluate(OVERFLOW) <= 0, f"{name} scrolls sideways ({width})"
        assert self.page.evaluate(NAMELESS) == []
        assert self.page.evaluate(HEADINGS) == []
        self.page.set_viewport_size(WIDE)
        self.page.emulate_media(color_scheme="light", reduced_motion="reduce")


@contextmanager
def visiting(browser: Any, url: str) -> Iterator[Visit]:
    """Open an empty page in a profile of its own; problems of the visit fail at the end.

    Tests that cause an error of the server take its line out of `problems`.
    """
    context = browser.new_context(viewport=WIDE, reduced_motion="reduce", color_scheme="light")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(120_000)  # a loaded machine is slow
    page = context.new_page()
    visit = Visit(page, url)

    def check(route: Any) -> None:
        if route.request.url.startswith(url):
            route.continue_()
        else:
            visit.problems.append(f"a request to {route.request.url}")
            route.abort()

    page.route("**/*", check)
    page.on("pageerror", lambda error: visit.problems.append(f"error: {error}"))
    page.on("dialog", lambda dialog: visit.problems.append(f"dialog: {dialog.message}"))
    page.on(
        "console",
        lambda message: (
            visit.problems.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    try:
        yield visit
        assert visit.problems == []
    finally:
        context.close()
