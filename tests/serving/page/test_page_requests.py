"""Requests and copied code of the page, errors, tokens of access, hostile texts, and many data.

These tests set the answers of the stand-in server; test_page.py has those for any server.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.serving.page import browsing, stand_in
from tests.serving.page.browsing import Site, Visit
from tests.serving.page.stand_in import StandIn

HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
TOKEN = {"TOKEN": "k"}
AWKWARD = 'It\'s "quoted" \\ and $HOME `ls` !\nnext line\ttab \U0001f600 \u202ertl'


# === Code to copy ===


def arguments_of(command: str) -> list[str]:
    """Return the arguments that a shell gives to curl."""
    program = "curl() { printf '%s\\0' \"$@\"; }\n" + command
    done = subprocess.run(["bash", "-c", program], capture_output=True, check=True, env=TOKEN)
    return done.stdout.decode().split("\0")[:-1]


def run_python(code: str, monkeypatch: pytest.MonkeyPatch, **modules: Any) -> str:
    """Run code in this process and return what it prints."""
    monkeypatch.setenv("TOKEN", "k")
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "copied", "exec"), {})
    return printed.getvalue()


def copied(visit: Visit, language: str) -> str:
    """Return the code that the button copies, which is the code that is shown."""
    visit.code(language)
    visit.page.locator(".code button").click()
    text = visit.page.evaluate("() => navigator.clipboard.readText()")
    assert text.strip() == visit.page.locator(".code pre").inner_text().strip()
    return text


def test_the_copied_code_sends_the_text(
    visit: Visit, fresh: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quotes, newlines and invisible characters arrive as they are, through bash and Python."""
    visit.open("reviews")
    visit.page.get_by_label("Text", exact=True).fill(AWKWARD)
    visit.run()
    expected = {"instances": [{"text": AWKWARD}]}
    address, *options = arguments_of(copied(visit, "curl"))
    assert address == f"{fresh.url}v1/models/reviews:predict"
    assert options[:2] == ["-H", "Content-Type: application/json"]
    assert options[2] == "-d"
    assert json.loads(options[3]) == expected
    assert len(options) == 4
    fresh.sent.clear()
    assert "reviews" in run_python(copied(visit, "Python"), monkeypatch)
    assert fresh.sent == [("/v1/models/reviews:predict", expected)]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("entailment", {"instances": [{"text": "a", "pair": "b"}]}),
        ("reviews", {"signature_name": "pairs", "instances": [{"text": "a", "pair": "b"}]}),
        (stand_in.BOTH, {"instances": [{"text": "a", "pair": "b"}]}),
        (stand_in.CROSS_ENCODER, {"instances": [{"text": "a", "pair": "b"}]}),
        ("meaning", {"signature_name": "similarity", "instances": [{"text": "a", "pair": "b"}]}),
    ],
)
def test_the_copied_code_of_pairs(visit: Visit, model: str, expected: Any) -> None:
    visit.open(model)
    for box, text in zip(visit.page.locator("textarea").all(), "ab", strict=True):
        box.fill(text)
    visit.run()
    assert json.loads(arguments_of(visit.code("curl"))[-1]) == expected


def test_the_copied_code_of_one_text(visit: Visit) -> None:
    """A model that reads pairs by default has another signature for single texts."""
    visit.open(stand_in.BOTH)
    visit.page.get_by_label("Text", exact=True).fill("a")
    visit.run()
    expected = {"signature_name": "texts", "instances": [{"text": "a"}]}
    assert json.loads(arguments_of(visit.code("curl"))[-1]) == expected


PATHS = {
    "vector": "/v1/embeddings",
    "compare": "/v1/models/meaning:predict",
    "search": "/v1/rerank",
}


@pytest.mark.parametrize("mode", PATHS)
def test_the_copied_code_of_vectors(
    visit: Visit, fresh: StandIn, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Python's standard library and OpenAI's client print the same score, ranks or vector."""
    visit.open("meaning", mode)
    visit.run("search" if mode == "search" else "answer")
    fresh.sent.clear()
    plain = run_python(copied(visit, "Python"), monkeypatch)
    ((path, body),) = fresh.sent
    assert path == PATHS[mode]
    texts = {
        "vector": lambda: body["input"],
        "compare": lambda: [*body["instances"][0].values()],
        "search": lambda: [body["query"], *body["documents"]],
    }[mode]()
    made: list[dict[str, Any]] = []

    class Client:
        def __init__(self, **settings: Any) -> None:
            made.append(settings)
            self.embeddings = self

        def create(self, **sent: Any) -> Any:
            assert sent == {"model": "meaning", "input": texts}
            items = fresh.reply("/v1/embeddings", sent)["data"]
            return types.SimpleNamespace(data=[types.SimpleNamespace(**item) for item in items])

    library = types.SimpleNamespace(OpenAI=Client)
    assert run_python(copied(visit, "OpenAI client"), monkeypatch, openai=library) == plain != ""
    assert made == [{"base_url": f"{fresh.url}v1", "api_key": "none"}]


def test_openai_code_compares_by_the_cosine_only(visit: Visit) -> None:
    """The client returns vectors, and the code compares them by the cosine."""
    for model, modes in (("meaning", PATHS), (stand_in.DOT, ("vector",))):
        for mode in PATHS:
            visit.open(model, mode)
            visit.run("search" if mode == "search" else "answer")
            offered = visit.page.get_by_role("radio", name="OpenAI client").count()
            assert offered == (mode in modes)


# === Errors and tokens of access ===


@pytest.mark.parametrize(
    ("status", "headers", "title"),
    [
        (400, {}, "did not accept"),
        (413, {}, "too long"),
        (429, {"Retry-After": "3"}, "busy"),
        (500, {}, "could not answer"),
        (503, {"Retry-After": "3"}, "not ready"),
    ],
)
def test_an_error_of_the_server(
    visit: Visit, fresh: StandIn, pictures: Path, status: int, headers: dict[str, str], title: str
) -> None:
    message = f"`text` is wrong: {HOSTILE}"
    fresh.failures = []
    visit.open("reviews")
    fresh.failures = [(status, message, headers)]
    visit.page.get_by_role("button", name="Classify").click()
    box = visit.page.get_by_role("alert").filter(has_text=str(status))
    shown = box.inner_text()
    assert title in shown
    assert message in shown
    assert ("3 seconds" in shown) == bool(headers)
    if status == 429:
        visit.picture(pictures, "error")
    assert all(f"status of {status}" in problem for problem in visit.problems)
    visit.problems.clear()
    box.get_by_role("button", name="Try again").click()
    visit.page.locator(".headline").wait_for()
    assert box.count() == 0


def test_a_server_that_is_away(visit: Visit, fresh: StandIn) -> None:
    visit.open("reviews")
    visit.page.route("**/answer", lambda route: route.abort())
    visit.page.get_by_role("button", name="Classify").click()
    alert = visit.page.locator(".error")
    alert.wait_for()
    assert "does not answer" in alert.inner_text()
    visit.problems.clear()


def test_a_server_with_a_token(visit: Visit, fresh: StandIn, pictures: Path) -> None:
    """The page asks, also after a wrong token, and keeps the right one for this tab."""
    fresh.token = "open sesame"
    page = visit.page
    page.goto(f"{visit.url}#model=reviews")
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    visit.picture(pictures, "token")
    page.get_by_label("Token", exact=True).fill("wrong")
    page.keyboard.press("Enter")
    dialog.get_by_text("refused").wait_for()
    page.get_by_label("Token", exact=True).fill("open sesame")
    page.get_by_role("button", name="Use token").click()
    page.get_by_label("Text", exact=True).wait_for()
    visit.run()
    assert '"Authorization: Bearer $TOKEN"' in visit.code("curl")
    assert "Authorization: Bearer k" in arguments_of(visit.code("curl"))
    assert 'os.environ["TOKEN"]' in visit.code("Python")
    assert "sesame" not in page.locator("body").inner_text()
    page.reload()
    page.get_by_label("Text", exact=True).wait_for()
    assert dialog.count() == 0
    # Another token on the server: the page asks again, and Escape leads to an error with a button.
    fresh.token = "other"
    page.get_by_role("button", name="Classify").click()
    dialog.wait_for()
    page.keyboard.press("Escape")
    page.locator(".error").get_by_text("A token is needed").wait_for()
    assert all("401" in problem for problem in visit.problems)
    visit.problems.clear()


def test_the_newest_request_counts(visit: Visit, fresh: StandIn) -> None:
    """The page says that it waits; an answer that comes too late is not shown."""
    visit.open("meaning", "vector")
    fresh.delay = 0.3
    button = visit.page.get_by_role("button", name="Get vector")
    button.click()
    visit.page.locator(".busy").wait_for()
    assert button.get_attribute("aria-disabled") == "true"
    visit.page.get_by_role("radio", name="Two texts").check()
    visit.page.get_by_role("button", name="Compare").click()
    visit.page.locator(".scale").wait_for()
    visit.settle()
    assert visit.read(".headline .beside") == ["similarity"]
    assert visit.page.locator(".busy, .facts.large").count() == 0


# === What a model cannot do, and what it did not read ===


def test_why_a_view_is_missing(visit: Visit, pictures: Path) -> None:
    visit.open(stand_in.SAVED_MODEL)
    visit.open_tab("Attention")
    assert "no attention outputs" in visit.read(".notice")[0]
    visit.open(stand_in.OTHER)
    assert "written by other code" in visit.read(".notice")[0]
    assert f"{stand_in.OTHER}:predict" in visit.code("curl")
    visit.picture(pictures, "other-model")
    visit.page.get_by_role("button", name="Show tokens").click()
    visit.page.locator(".piece").first.wait_for()
    assert visit.page.get_by_role("tab", name="Tokens").get_attribute("aria-selected") == "true"


def test_a_saved_model_says_why_it_has_one_answer(visit: Visit) -> None:
    for model, says in ((stand_in.SAVED_ANSWERS, True), ("answers", False)):
        visit.open(model)
        visit.run()
        hints = " ".join(visit.read(".hint"))
        assert ("A SavedModel returns its best answer only" in hints) == says


def test_many_unknown_words_are_told(visit: Visit) -> None:
    visit.open("reviews")
    visit.page.get_by_label("Text", exact=True).fill("zzz and others")
    visit.run()
    assert visit.read(".notice")[0].startswith("6 of 8 tokens are unknown to this model")
    visit.page.get_by_label("Text", exact=True).fill("a fine film")
    visit.run()
    assert visit.read(".notice") == []


def test_a_text_that_is_cut_is_told(visit: Visit) -> None:
    visit.open("reviews")
    visit.page.get_by_label("Text", exact=True).fill("long words " * 400)
    visit.run()
    assert "first 128 tokens" in visit.read(".notice")[0]
    visit.open_tab("Tokens")
    assert "first 128 tokens" in visit.read(".notice")[0]
    visit.open_tab("Attention")
    assert "at most 128 tokens" in visit.read(".overview")[0]


def test_masks_take_other_words(visit: Visit) -> None:
    visit.open("words")
    visit.page.get_by_label("Text", exact=True).fill("She is read [MASK] in [MASK].")
    visit.run()
    visit.page.get_by_role("region", name="Mask 1").get_by_role("button", name="##ing").click()
    visit.page.get_by_role("region", name="Mask 2").get_by_role("button", name="rome").click()
    assert visit.read(".sentence") == ["She is reading in rome."]
    assert visit.page.locator("#status").inner_text() == "She is reading in rome."
    join = "async (parts) => (await import('/static/text.js')).joinToken(...parts)"
    for parts, text in [
        (["a ", "\u2581word", "."], "a word."),
        (["a", "\u0120word", "."], "a word."),
        (["a ", "##", "."], "a ##."),
        (["", "##s", ""], "s"),
    ]:
        assert "".join(visit.page.evaluate(join, parts)) == text


def test_entities_count_code_points(visit: Visit, pictures: Path) -> None:
    visit.open("names")
    text = "\U0001f600\U0001f468\u200d\U0001f469 Ada met Zo\u00eb. \u05e9\u05dc\u05d5\u05dd Paris"
    visit.page.get_by_label("Text", exact=True).fill(text)
    reply = visit.run()
    assert visit.read("mark.entity bdi") == ["Ada", "Zo\u00eb", "Paris"]
    key = visit.page.locator(".legend button").first
    key.click()
    assert len(visit.read("mark.entity")) == len(reply["answer"]["entities"]) - 1
    key.click()
    visit.page.get_by_text("As a table").click()
    assert visit.read("tbody tr td:first-child") == ["Ada", "Zo\u00eb", "Paris"]
    visit.picture(pictures, "entities-table")


def test_a_server_without_models(visit: Visit) -> None:
    """A change of the address, such as by the back button, raises no error."""
    reply = {"json": {"models": []}}
    visit.page.route("**/api/models", lambda route: route.fulfill(**reply))
    visit.page.goto(visit.url)
    visit.page.get_by_text("This server has no models.").wait_for()
    visit.page.evaluate("() => { location.hash = 'model=a'; }")
    visit.settle()
    assert visit.page.locator("form.form").count() == 0


def test_a_browser_that_does_not_copy(visit: Visit) -> None:
    visit.open("reviews")
    visit.run()
    visit.page.evaluate(
        """() => {
          navigator.clipboard.writeText = () => Promise.reject(new Error());
          document.execCommand = () => false;
        }"""
    )
    visit.page.get_by_role("button", name="Copy").click()
    visit.page.get_by_role("button", name="does not allow copying").wait_for()


def test_unknown_and_masked_tokens_are_not_special(visit: Visit) -> None:
    visit.page.goto(visit.url)
    script = "async (token) => (await import('/static/attention_weights.js')).looksSpecial(token)"
    for token in ("[CLS]", "[SEP]", "[PAD]", "<s>", "</s>"):
        assert visit.page.evaluate(script, token), token
    for token in ("[UNK]", "[MASK]", "<unk>", "<mask>", "[", "a", "##s"):
        assert not visit.page.evaluate(script, token), token


def test_attention_without_lines_says_so(visit: Visit) -> None:
    """The same small weight everywhere gives no line."""
    weights = base64.b64encode(bytes([4]) * 64**2).decode()
    reply = {"tokens": ["a"] * 64, "layers": 1, "heads": 1, "attention": weights}
    visit.page.route("**/attention", lambda route: route.fulfill(json=reply))
    visit.open("reviews")
    visit.open_tab("Attention")
    assert visit.read(".reading")[0].startswith("Every weight here is below 2.0%")
    visit.page.locator(".column.from .tok").first.hover()
    assert "attends to" in visit.read(".reading")[0]


# === Hostile texts, and many data ===


@pytest.mark.parametrize("task", sorted({*stand_in.MODELS.values()} - {"other"}))
def test_hostile_text_is_text(visit: Visit, fresh: StandIn, site: Site, task: str) -> None:
    """No text, label or token becomes HTML: no element, no dialog, no request."""
    model = site.models[task]
    fresh.labels = {task: [HOSTILE, "b"] for task in stand_in.LABELS}
    visit.open(model)
    for box in visit.page.locator("textarea, .options input").all():
        name = box.get_attribute("name") or ""
        box.fill(f"Ab {HOSTILE} [MASK] Cd {'x' * 100} {name}")
    visit.run()
    if model in ("reviews", "topics", "names"):
        assert HOSTILE in visit.page.locator("#panel-answer").inner_text()
    visit.page.set_viewport_size(browsing.NARROW)
    for tab in ("Answer", "Tokens", "Attention"):
        visit.open_tab(tab)
        assert visit.page.locator("main img, main script").count() == 0
        assert visit.page.evaluate(browsing.OVERFLOW) <= 0, tab


def test_right_to_left(visit: Visit, pictures: Path) -> None:
    visit.open("answers")
    visit.page.get_by_label("Question").fill("\u05de\u05d9 \u05db\u05ea\u05d1?")
    hebrew = "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd. Ada \u05db\u05ea\u05d1\u05d4. "
    visit.page.get_by_label("Context", exact=True).fill(hebrew * 9)
    visit.run()
    direction = "(element) => getComputedStyle(element).direction"
    assert visit.page.locator(".context .marked").evaluate(direction) == "rtl"
    assert visit.page.locator(".code pre").evaluate(direction) == "ltr"
    visit.picture(pictures, "right-to-left")
    visit.open_tab("Attention")
    visit.page.locator(".column.from .tok").nth(3).hover()
    visit.picture(pictures, "right-to-left-attention")


@pytest.mark.parametrize(("tab", "selector"), [("Tokens", ".piece"), ("Attention", ".tok")])
def test_pointing_moves_no_token(tab: str, selector: str, visit: Visit) -> None:
    """A token that moved away from under the pointer would flicker."""
    visit.open("reviews")
    visit.page.get_by_label("Text", exact=True).fill(
        "The extraordinarily_old town has streets. " * 5
    )
    visit.open_tab(tab)
    places = """buttons => buttons.map((button) => {
      button.dispatchEvent(new PointerEvent("pointerenter"));
      const places = buttons.map((one) => one.getBoundingClientRect().top);
      button.dispatchEvent(new PointerEvent("pointerleave"));
      return places.join();
    })"""
    for size in (browsing.WIDE, browsing.NARROW):
        visit.page.set_viewport_size(size)
        found = visit.page.locator(f"[role=tabpanel]:visible {selector}").evaluate_all(places)
        assert len(found) > 20
        assert len(set(found)) == 1


def test_many_data(visit: Visit, fresh: StandIn, pictures: Path) -> None:
    """60 tokens in 12 x 12 heads, 20 labels, 300 lines, and a context of 2,000 characters."""
    visit.open("topics")
    assert len(visit.run()["answer"]["labels"]) == 20
    assert len(visit.read(".bar")) == 8
    visit.page.get_by_role("button", name="Show all 20").click()
    assert len(visit.read(".bar")) == 20
    visit.picture(pictures, "many-labels")
    fresh.labels["token_classification"] = [f"LABEL_{n}" for n in range(20)]
    visit.open("names")
    names = " ".join(f"the Name{chr(97 + n)} and" for n in range(24))
    visit.page.get_by_label("Text", exact=True).fill(names)
    visit.run()
    visit.picture(pictures, "many-entities")
    visit.open("answers")
    sentences = "On Mondays the museum opens at ten, and the guide tells its story. " * 30
    visit.page.get_by_label("Context", exact=True).fill(sentences[:2000])
    visit.run()
    visit.picture(pictures, "many-words")
    visit.open("meaning", "search")
    visit.page.get_by_label("Lines to search").fill(
        "\n".join(f"Line {n} about a place {n % 7} to read" for n in range(300))
    )
    visit.run("search")
    assert len(visit.read(".bar")) == 10
    visit.picture(pictures, "many-lines")
    visit.page.get_by_role("button", name="Show all 300").click()
    assert len(visit.read(".bar")) == 300
    visit.open("reviews")
    visit.page.get_by_label("Text", exact=True).fill("The old town has many narrow streets. " * 7)
    visit.open_tab("Attention")
    assert len(visit.read(".column.from .tok")) >= 58
    visit.page.locator(".head-cell").nth(40).click()
    visit.picture(pictures, "many-heads")
    visit.page.get_by_label("Special tokens").uncheck()
    visit.page.locator(".column.from .tok").nth(0).hover()
    assert not any(visit.read(".weight"))
