"""Pictures in a headless Chromium: what is shown when a user points, chooses and types."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.visualize import AttentionPicture, attention, embeddings
from tests.visualize.pictures import HOSTILE, classifier, one_backend, page

TEXT = "ab c d"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return attention(classifier(), None, HOSTILE).save(tmp_path / "a.html")


@one_backend
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hovering_shows_the_lines_of_a_token(file: Path, scheme: Any) -> None:
    with page(file, color_scheme=scheme) as opened:
        names = opened.locator("#from span").all_inner_texts()
        assert names == attention(classifier(), None, HOSTILE).labels
        everything = opened.locator("#drawing path").count()
        opened.locator("#from button").nth(1).hover()
        status = opened.locator("#status").inner_text()
        assert re.match(r"“\u2068a\u2069” attends to: “.*” \d\.\d\d", status)
        lines = opened.locator("#drawing path").count()
        assert 0 < lines <= len(names) < everything
        opened.locator("#to button").nth(2).focus()
        assert "gets attention from" in opened.locator("#status").inner_text()
        background = opened.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") is (scheme == "light")


@one_backend
def test_layers_and_heads_are_chosen(file: Path) -> None:
    with page(file, viewport={"width": 390, "height": 800}) as opened:
        assert opened.locator("#overview button").count() == 4
        opened.locator("#overview button").nth(1).click()
        assert (opened.locator("#layer").input_value(), opened.locator("#head").input_value()) == (
            "0",
            "1",
        )
        opened.keyboard.press("ArrowDown")
        assert opened.locator("#layer").input_value() == "1"
        assert opened.evaluate("document.activeElement.title") == "Layer 1, head 1"
        opened.locator("#head").select_option("")
        assert opened.locator('#overview [aria-pressed="true"]').count() == 2
        opened.locator("#special").check()
        assert opened.locator("#from button").first.is_hidden()
        width = opened.evaluate("document.documentElement.scrollWidth")
        assert width <= 390


@one_backend
def test_layers_and_heads_count_from_zero(file: Path) -> None:
    with page(file) as opened:
        for name in ("#layer", "#head"):
            options = opened.locator(f"{name} option").all_inner_texts()
            assert [text for text in options if text.isdigit()] == ["0", "1"]
        assert opened.locator("#overview .name").all_inner_texts() == ["", *"0101"]
        assert opened.locator("#overview button").first.get_attribute("title") == "Layer 0, head 0"
        assert "Layer 0 is the first" in opened.locator(".how").first.inner_text()


def test_attention_without_lines_says_so(tmp_path: Path) -> None:
    tokens = ["[CLS]", *["a"] * 59]
    attentions = np.full((1, 1, 60, 60), 1 / 60, np.float32)
    picture = AttentionPicture(tokens, tokens, [True, *[False] * 59], attentions, 0, 0)
    with page(picture.save(tmp_path / "a.html")) as opened:
        assert opened.locator("#status").inner_text().startswith("Every probability here is below")
        opened.locator("#from button").nth(1).hover()
        assert opened.locator("#drawing path").count() == 60


@one_backend
def test_two_pictures_in_one_notebook(tmp_path: Path) -> None:
    picture = attention(classifier(), None, TEXT)
    both = tmp_path / "both.html"
    both.write_text(f"<meta charset=utf-8>{picture._repr_html_() * 2}", encoding="utf-8")
    with page(both) as opened:
        for number in range(2):
            frame = opened.frame_locator("iframe").nth(number)
            frame.locator("#from button").nth(1).hover()
            assert "“\u2068a\u2069” attends to" in frame.locator("#status").inner_text()


@one_backend
def test_hovering_shows_a_text(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    texts = [HOSTILE, *(f"text {n}" for n in range(1, 12))]
    labels = ["x" if n % 2 else "<b>y" for n in range(12)]
    vectors = np.random.default_rng(0).normal(size=(12, 5))
    path = embeddings(vectors, texts, labels).save(tmp_path / "a.html")
    with page(path, color_scheme="dark") as opened:
        points = opened.locator("#drawing path")
        assert points.count() == 12
        points.first.hover()
        assert opened.locator("#tip").inner_text() == f"<b>y\n{HOSTILE}"
        opened.locator("#legend button").first.click()
        assert points.first.is_hidden()
        assert points.nth(1).is_visible()
        # The Tab key reaches a point that is shown, and the arrow keys the next one.
        opened.locator("#legend button").last.focus()
        opened.keyboard.press("Tab")
        assert opened.locator("#tip").inner_text() == "x\ntext 1"
        opened.keyboard.press("ArrowRight")
        assert opened.locator("#tip").inner_text() == "x\ntext 3"
        opened.locator("#find").fill("text 11")
        assert opened.locator("#found").inner_text() == "1 of 12 texts"
        assert opened.locator("#drawing path.faint").count() == 11
