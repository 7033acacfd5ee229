// The part that the token and attention views share: the choice of the text, and its request.

import { pathOf, request } from "./api.js";
import { chooser } from "./controls.js";
import { make } from "./dom.js";
import { busyLine, errorBox, notice } from "./messages.js";

/**
 * Fill a panel with a view of a text: its tokens or its attention.
 *
 * `action`: "tokens" or "attention". `draw(reply, text)` returns the element of the view.
 * Returns `refresh(texts, again)`, which shows the chosen one of the texts. It sends no request for
 * the text that is shown already, unless `again` is true.
 */
export function makeReader(panel, model, action, draw) {
  let shown = null; // the text in the panel, as JSON
  let chosen = 0; // which of several texts
  let running = null;

  async function refresh(texts, again = false) {
    if (!model.can[action]) {
      panel.replaceChildren(notice(model.why_not?.[action] ?? "This model cannot show this."));
      return;
    }
    if (chosen >= texts.length) chosen = 0;
    const text = texts[chosen];
    if (!text?.text?.trim()) {
      shown = null;
      panel.replaceChildren(notice("Write a text first."));
      return;
    }
    const body = text.pair ? { text: text.text, pair: text.pair } : { text: text.text };
    const key = JSON.stringify([chosen, body]);
    if (key === shown && !again) return;
    shown = key;
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    const busy = busyLine();
    panel.prepend(busy);
    panel.setAttribute("aria-busy", "true");
    try {
      const reply = await request(pathOf(model, action), body, signal);
      if (signal.aborted) return;
      panel.replaceChildren(...choice(texts), draw(reply, body));
    } catch (error) {
      if (signal.aborted) return;
      shown = null;
      panel.replaceChildren(
        ...choice(texts),
        errorBox(error, () => refresh(texts, true)),
      );
    } finally {
      busy.remove();
      if (!signal.aborted) panel.removeAttribute("aria-busy");
    }
  }

  function choice(texts) {
    if (texts.length < 2) return [];
    const options = texts.map(({ name }, index) => ({ value: String(index), name }));
    const { element, select } = chooser("Show", options, String(chosen), (value) => {
      chosen = Number(value);
      refresh(texts).then(() => panel.querySelector("select")?.focus());
    });
    select.classList.add("which-text");
    return [make("p", { class: "row" }, element)];
  }
  return refresh;
}
