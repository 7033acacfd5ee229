// Masks filled in, with other words to choose.

import { barButton, markChosen } from "./bars.js";
import { copyButton } from "./controls.js";
import { announce, make } from "./dom.js";
import { joinToken } from "./text.js";

export function showMasks(reply, values, model) {
  const masks = reply.answer.masks;
  const pieces = values.text.split(model.mask_token ?? "[MASK]");
  const chosen = masks.map(() => 0);
  const sentence = make("p", { class: "sentence", dir: "auto" });
  const tokenAt = (place) => masks[place][chosen[place]]?.token ?? "";

  /** Return the text with the chosen tokens, as `[{text, place}]`; `place` is null between them. */
  function filled() {
    const parts = [{ text: pieces[0], place: null }];
    pieces.slice(1).forEach((after, place) => {
      if (place >= masks.length) {
        // The model did not read this mask: the text was too long.
        parts.push({ text: (model.mask_token ?? "[MASK]") + after, place: null });
        return;
      }
      const [before, token] = joinToken(parts.at(-1).text, tokenAt(place), after);
      parts.at(-1).text = before;
      parts.push({ text: token, place }, { text: after, place: null });
    });
    return parts;
  }
  const asText = () =>
    filled()
      .map((part) => part.text)
      .join("");

  function draw() {
    sentence.replaceChildren(
      ...filled().map(({ text, place }) =>
        place === null ? text : make("mark", { class: "found", text }),
      ),
    );
    lists.forEach((buttons, place) => markChosen(buttons, chosen[place]));
  }

  const lists = masks.map((fills, place) =>
    fills.map((fill, index) => {
      const choose = () => {
        chosen[place] = index;
        draw();
        announce(asText());
      };
      const properties = { title: `token id ${fill.token_id}`, on: { click: choose } };
      return barButton(fill.token, fill.score, properties);
    }),
  );
  draw();
  const title = (place) => (masks.length > 1 ? `Mask ${place + 1}` : "Choose another word");
  return {
    summary: asText(),
    element: make(
      "div",
      {},
      make("div", { class: "sentence-row" }, sentence, copyButton("Copy text", asText)),
      make(
        "div",
        { class: "masks" },
        ...lists.map((buttons, place) =>
          make(
            "section",
            { "aria-label": title(place) },
            make("h2", { text: title(place) }),
            make(
              "ul",
              { class: "bars answers" },
              ...buttons.map((button) => make("li", {}, button)),
            ),
          ),
        ),
      ),
    ),
  };
}
