// Answers in a context: the best one is marked first, and each of the others can be chosen.

import { barButton, headline, markChosen } from "./bars.js";
import { roving } from "./controls.js";
import { highlighted, make } from "./dom.js";
import { decimal, percent } from "./text.js";

export function showSpans(reply, values, model) {
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
    const on = { click: () => choose(index), focus: () => choose(index) };
    return barButton(answer.text || "No answer", answer.score, { on });
  });
  roving(buttons);

  function choose(index) {
    markChosen(buttons, index);
    text.replaceChildren(...highlighted(values.context, [answers[index]]));
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
  if (model.kind === "saved_model") {
    const text = "A SavedModel returns its best answer only. The checkpoint shows others too.";
    element.append(make("p", { class: "hint", text }));
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
