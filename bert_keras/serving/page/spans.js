// Answers in a context: the best one is marked, and the next best can be looked at.

import { headline } from "./bars.js";
import { make } from "./dom.js";
import { roving } from "./controls.js";
import { decimal, percent, stretches } from "./text.js";

export function showSpans(reply, values) {
  const answers = reply.answer.answers;
  const best = answers[0];
  const context = make("div", {
    class: "context",
    tabindex: "0",
    role: "region",
    "aria-label": "Context with the answer marked",
  });
  const text = make("p", { class: "marked", dir: "auto" });
  context.append(text);

  const buttons = answers.map((answer, index) => {
    const width = `${100 * Math.min(1, Math.max(0, answer.score))}%`;
    return make(
      "button",
      {
        type: "button",
        class: "bar",
        on: { click: () => choose(index), focus: () => choose(index) },
      },
      make("span", { class: "bar-name", dir: "auto", text: answer.text || "No answer" }),
      make("span", { class: "bar-value", text: percent(answer.score) }),
      make(
        "span",
        { class: "track", "aria-hidden": "true" },
        make("span", { class: "fill", style: { width } }),
      ),
    );
  });
  roving(buttons);

  function choose(index) {
    buttons.forEach((button, place) => {
      button.classList.toggle("chosen", place === index);
      button.setAttribute("aria-pressed", place === index);
    });
    const { start, end } = answers[index];
    text.replaceChildren(
      ...stretches(values.context, [{ start, end }]).map((part) =>
        part.mark ? make("mark", { class: "found", text: part.text }) : part.text,
      ),
    );
    scrollTo(context, text.querySelector("mark"));
  }

  const title = best?.text || "No answer in this context";
  const element = make("div", {}, headline(title, best ? percent(best.score) : null), context);
  if (answers.length > 1) {
    element.append(
      make("h2", { text: "Best answers" }),
      make("ul", { class: "bars answers" }, ...buttons.map((button) => make("li", {}, button))),
    );
  }
  if (typeof best?.null_score === "number") {
    element.append(
      make("p", {
        class: "hint",
        text:
          `Score of "no answer": ${decimal(best.null_score, 2)}. ` +
          "The higher it is, the less likely it is that the context holds an answer.",
      }),
    );
  }
  if (answers.length) choose(0);
  // The element is not in the page yet, so its parts have no place to scroll to.
  requestAnimationFrame(() => scrollTo(context, text.querySelector("mark")));
  return { summary: best ? `${title}, ${percent(best.score)}` : title, element };
}

/** Scroll a box, and nothing around it, so that a mark inside it is in the middle. */
function scrollTo(box, mark) {
  if (!mark) return;
  const top = mark.getBoundingClientRect().top - box.getBoundingClientRect().top;
  box.scrollTop += top - box.clientHeight / 2;
}
