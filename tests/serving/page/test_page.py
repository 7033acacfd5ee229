"""The page in a real browser: every task is asked by hand, and what is shown is the server's reply.

The server is a stand-in with canned answers, so that no model and no Keras backend is needed.
Pictures go to the folder that the variable BERT_KERAS_SCREENSHOTS names, or to a temporary one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.serving.page import stand_in
from tests.serving.page.browsing import Site, Visit

# The name of the element with the focus.
FOCUSED = """() => {
  const element = document.activeElement;
  return element.getAttribute("aria-label")
    ?? element.labels?.[0]?.textContent ?? element.textContent;
}"""

# === The answer of each task, for any server ===


def percent(score: float) -> str:
    if 0 < score < 0.001:
        return "<0.1%"
    return ">99.9%" if 0.9995 <= score < 1 else f"{100 * score:.1f}%"


def close_to(shown: str, value: float) -> bool:
    """Return whether a number on the page is the server's, rounded."""
    digits = len(shown.partition(".")[2])
    return abs(float(shown.replace("\u2212", "-")) - value) <= 0.51 * 10**-digits


def sees_labels(visit: Visit, reply: Any) -> None:
    answer = reply["answer"]
    assert visit.read(".headline strong") == [", ".join(answer["chosen"]) or "No label fits"]
    if (button := visit.page.get_by_role("button", name="Show all")).count():
        button.click()
    names = [re.sub(r" chosen$", "", name) for name in visit.read(".bar-name")]
    assert names == [item["label"] for item in answer["labels"]]
    assert visit.read(".bar-value") == [percent(item["score"]) for item in answer["labels"]]


def sees_numbers(visit: Visit, reply: Any) -> None:
    (shown,) = visit.read(".headline strong")
    assert close_to(shown, reply["answer"]["scores"][0])


def sees_entities(visit: Visit, reply: Any) -> None:
    entities = reply["answer"]["entities"]
    assert visit.read("mark.entity bdi") == [entity["text"] for entity in entities]
    assert visit.read("mark.entity .entity-label") == [entity["label"] for entity in entities]
    keys = {re.sub(r" \d+$", "", key) for key in visit.read(".legend button")}
    assert keys == {entity["label"] for entity in entities}


def sees_spans(visit: Visit, reply: Any) -> None:
    answers = reply["answer"]["answers"]
    context = visit.page.get_by_label("Context", exact=True).input_value()
    assert visit.read(".headline strong")[0] == (answers[0]["text"] or "No answer in this context")
    for index, answer in reversed([*enumerate(answers)]):
        if len(answers) > 1:
            visit.page.locator(".answers button").nth(index).click()
        part = context[answer["start"] : answer["end"]]
        assert visit.read(".context mark") == ([part] if part else [])


def sees_choices(visit: Visit, reply: Any) -> None:
    answer = reply["answer"]
    assert visit.read(".sentence mark") == [answer["text"]]
    assert visit.read(".bar-value") == [percent(score) for score in answer["scores"]]
    assert visit.read(".bar.chosen .bar-name") == [answer["text"]]


def sees_masks(visit: Visit, reply: Any) -> None:
    masks = reply["answer"]["masks"]
    assert visit.read(".masks .bar-name") == [fill["token"] for fills in masks for fill in fills]
    best = [fills[0]["token"].removeprefix("##").lstrip("\u2581\u0120") for fills in masks]
    assert visit.read(".sentence mark") == best
    assert "[MASK]" not in visit.read(".sentence")[0]


def sees_similarity(visit: Visit, reply: Any) -> None:
    assert close_to(visit.read(".headline strong")[0], reply["answer"]["similarity"])


def sees_ranking(visit: Visit, reply: Any) -> None:
    text = visit.page.get_by_label("Lines to search").input_value()
    lines = [line for line in text.split("\n") if line.strip()]
    names = [re.sub(r" line \d+$", "", name) for name in visit.read(".bar-name")]
    assert names == [lines[result["index"]] for result in reply["results"]]
    shown = zip(visit.read(".bar-value"), reply["results"], strict=True)
    assert all(close_to(value, result["score"]) for value, result in shown)


def sees_vector(visit: Visit, reply: Any) -> None:
    vector = reply["answer"]["vector"]
    numbers = visit.read(".facts dd")
    assert int(numbers[0].replace(",", "")) == len(vector)
    assert close_to(numbers[1], sum(value**2 for value in vector) ** 0.5)
    assert visit.page.locator("canvas.strip").count() == 1


# Task, mode of its page, and the check of the answer.
ASKED: list[tuple[str, str | None, Callable[[Visit, Any], None]]] = [
    ("text_classification", None, sees_labels),
    ("multi_label_classification", None, sees_labels),
    ("text_regression", None, sees_numbers),
    ("pair_classification", None, sees_labels),
    ("token_classification", None, sees_entities),
    ("question_answering", None, sees_spans),
    ("multiple_choice", None, sees_choices),
    ("fill_mask", None, sees_masks),
    ("pretraining", None, sees_masks),
    ("sentence_similarity", None, sees_similarity),
    ("sentence_similarity", "search", sees_ranking),
    ("feature_extraction", None, sees_vector),
]


# These tasks are asked every time: those whose pages differ most.
QUICK = ("text_classification", "question_answering")


@pytest.mark.parametrize(
    ("task", "mode", "sees"),
    [
        pytest.param(
            *each,
            id=f"{each[0]}-{each[1] or 'first'}",
            marks=[] if (each[1] or each[0]) in QUICK else [pytest.mark.slow],
        )
        for each in ASKED
    ],
)
def test_a_task_is_answered(
    visit: Visit,
    site: Site,
    pictures: Path,
    task: str,
    mode: str | None,
    sees: Callable[[Visit, Any], None],
) -> None:
    visit.open(site.models[task], mode)
    reply = visit.run("search" if mode == "search" else "answer")
    sees(visit, reply)
    assert site.models[task] in visit.code("curl")
    visit.picture(pictures, f"{task}-{mode or 'answer'}")


def test_the_tokens(visit: Visit, site: Site, pictures: Path) -> None:
    visit.open(site.models["question_answering"])
    question = "Where is the caf\u00e9? \U0001f600"
    context = "\U0001f600\U0001f600 The caf\u00e9 is here."
    visit.page.get_by_label("Question").fill(question)
    visit.page.get_by_label("Context", exact=True).fill(context)
    with visit.page.expect_response("**/tokens") as response:
        visit.open_tab("Tokens")
    tokens = response.value.json()["tokens"]
    assert visit.read(".piece bdi") == [token["token"] for token in tokens]
    assert visit.read(".piece-id") == [str(token["id"]) for token in tokens]
    # Offsets count code points, and an emoji is one of them.
    last = max(n for n, token in enumerate(tokens) if token["start"] is not None)
    visit.page.locator(".piece").nth(last).hover()
    part = (question, context)[tokens[last]["segment"]][tokens[last]["start"] : tokens[last]["end"]]
    assert visit.read(".source mark") == [part]
    visit.picture(pictures, "tokens-pieces")
    visit.page.get_by_role("radio", name="Table").check()
    assert len(visit.read("tbody tr")) == len(tokens)
    assert visit.read("tbody tr:nth-child(2) td")[1:3] == [tokens[1]["token"], str(tokens[1]["id"])]
    visit.picture(pictures, "tokens-table")


def test_the_attention(visit: Visit, site: Site, pictures: Path) -> None:
    visit.open(site.models["text_classification"])
    with visit.page.expect_response("**/attention") as response:
        visit.open_tab("Attention")
    reply = response.value.json()
    tokens, layers, heads = reply["tokens"], reply["layers"], reply["heads"]
    assert visit.page.locator(".head-cell").count() == layers * heads
    for name, count in (("Layer", layers), ("Head", heads)):
        options = visit.page.get_by_label(name, exact=True).locator("option").all_inner_texts()
        assert options == [str(number) for number in range(count)]
    assert visit.read(".axis") == [*map(str, range(heads)), *map(str, range(layers))]
    assert "Layer 0 is the first" in visit.read(".overview .hint")[0]
    assert visit.read(".column.from .tok bdi") == visit.read(".column.to .tok bdi") == tokens
    weights = stand_in.weights_of(reply)

    def shown() -> list[str]:
        return visit.read(".column.to .weight")

    visit.page.get_by_role(
        "button", name=f"Layer {layers - 1}, head {heads - 1}", exact=True
    ).click()
    visit.page.locator(".column.from .tok").nth(1).hover()
    expected = [percent(w) if w >= 0.01 else "" for w in weights[-1, -1, 1].tolist()]
    assert shown() == expected
    visit.page.locator(".column.from .tok").nth(1).click()
    visit.picture(pictures, "attention-token")
    visit.page.locator(".column.from .tok").nth(1).press("Escape")
    visit.page.mouse.move(0, 0)  # a resting pointer would point at a token after each scroll
    # Keyboard: the arrow keys choose another head and token, Enter keeps it, Escape lets it go.
    visit.page.locator(".head-cell[aria-pressed=true]").press("Home")
    visit.page.keyboard.press("Enter")
    assert visit.page.locator(".head-cell").first.get_attribute("aria-pressed") == "true"
    visit.page.locator(".column.from .tok").nth(1).focus()
    visit.page.keyboard.press("ArrowDown")
    assert shown() == [percent(w) if w >= 0.01 else "" for w in weights[0, 0, 2].tolist()]
    assert "attends to" in visit.read(".reading")[0]
    visit.page.keyboard.press("Enter")
    visit.page.locator(".head-view select").first.focus()
    assert any(shown())
    visit.page.locator(".column.from .tok").nth(2).press("Escape")
    visit.page.locator(".head-view select").first.focus()
    assert not any(shown())
    visit.picture(pictures, "attention-all-lines")


def test_the_start_and_links(visit: Visit, site: Site, pictures: Path) -> None:
    """The address names the model, and the text of a model is kept while another one is open."""
    first, second = (site.models[task] for task in ("text_classification", "fill_mask"))
    visit.page.goto(visit.url)
    visit.page.get_by_role("tab", name="Answer").wait_for()
    visit.picture(pictures, "start")
    visit.open(first)
    visit.page.get_by_label("Text", exact=True).fill("my own words")
    visit.page.get_by_label("Model", exact=True).select_option(second)
    assert visit.page.url.endswith(f"model={second}")
    visit.page.get_by_label("Model", exact=True).select_option(first)
    assert visit.page.get_by_label("Text", exact=True).input_value() == "my own words"
    visit.page.reload()
    assert visit.page.get_by_label("Model", exact=True).input_value() == first


@pytest.mark.slow
def test_the_theme_is_kept(visit: Visit, site: Site) -> None:
    ground = "() => getComputedStyle(document.body).backgroundColor"
    visit.open(site.models["text_classification"])
    light = visit.page.evaluate(ground)
    visit.page.get_by_role("button", name="Dark theme").click()
    dark = visit.page.evaluate(ground)
    assert dark != light
    visit.page.reload()
    assert visit.page.evaluate(ground) == dark
    visit.page.get_by_role("button", name="Light theme").click()
    assert visit.page.evaluate(ground) == light


def test_the_keyboard_alone(visit: Visit, site: Site) -> None:
    """From the address bar to the answer, its tokens and its code, without a pointer."""
    page = visit.page
    visit.open(site.models["text_classification"])

    def tab_to(name: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            focused = page.evaluate(FOCUSED)
            assert page.evaluate("() => document.activeElement.matches(':focus-visible')")
            if focused.startswith(name):
                return
        raise AssertionError(f"the Tab key does not reach {name}")

    tab_to("Text")
    page.keyboard.press("Control+A")
    page.keyboard.type("typed by hand")
    with page.expect_response("**/answer") as response:
        page.keyboard.press("Control+Enter")
    assert response.value.request.post_data_json["inputs"] == {"text": "typed by hand"}
    page.locator(".headline").wait_for()
    assert page.evaluate("() => document.activeElement.tagName") == "TEXTAREA"
    assert page.get_by_role("status").first.inner_text() != ""
    tab_to("Answer")
    with page.expect_response("**/tokens"):
        page.keyboard.press("ArrowRight")
    page.locator(".pieces").wait_for()
    tab_to("Pieces")
    tab_to("[CLS]")
    page.keyboard.press("ArrowRight")
    assert visit.read(".source mark") != []
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowLeft")
    tab_to("curl")
    page.keyboard.press("ArrowRight")
    assert "import json" in visit.read("pre")[0]


@pytest.mark.slow
def test_an_empty_input_is_told(visit: Visit, site: Site) -> None:
    visit.open(site.models["pair_classification"])
    visit.page.get_by_label("Second text").fill("  ")
    visit.page.get_by_role("button", name="Classify").click()
    assert "Second text" in visit.page.locator(".field-error:visible").inner_text()
    assert visit.page.get_by_label("Second text").get_attribute("aria-invalid") == "true"
    visit.open(site.models["fill_mask"])
    visit.page.get_by_label("Text", exact=True).fill("no gap ")
    visit.page.get_by_role("button", name="Fill in").click()
    assert "[MASK]" in visit.page.locator(".field-error:visible").inner_text()
    visit.page.get_by_role("button", name="Insert [MASK]").click()
    assert visit.page.get_by_label("Text", exact=True).input_value() == "no gap [MASK]"
    assert visit.page.locator(".field-error:visible").count() == 0
    visit.open(site.models["multiple_choice"])
    for option in (1, 2):
        visit.page.get_by_label(f"Option {option}", exact=True).fill("")
    visit.page.get_by_role("button", name="Choose").click()
    assert "at least 2" in visit.page.locator(".field-error:visible").inner_text()
