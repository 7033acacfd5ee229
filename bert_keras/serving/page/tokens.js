// The tokens of a text, with their ids and their places in the text.

import { roving, switcher } from "./controls.js";
import { announce, highlighted, make, scrollableTable } from "./dom.js";
import { truncation } from "./messages.js";
import { codePoints, count } from "./text.js";

let form = "pieces"; // "pieces" or "table"; the choice stays for the next text

/** Return the element for a reply of the tokens interface; `text`: `{text, pair}` that was read. */
export function showTokens(reply, text, model) {
  const { tokens } = reply;
  const texts = text.pair === undefined ? [text.text] : [text.text, text.pair];
  const view = make("div");
  const draw = () =>
    view.replaceChildren(form === "pieces" ? pieces(tokens, texts) : table(tokens, texts));
  const forms = [
    { value: "pieces", name: "Pieces" },
    { value: "table", name: "Table" },
  ];
  const choice = switcher("View", forms, form, (value) => {
    form = value;
    draw();
  });
  draw();
  const limit = model.max_length ? ` of at most ${model.max_length.toLocaleString("en")}` : "";
  return make(
    "div",
    {},
    reply.truncated ? truncation(model) : null,
    make(
      "div",
      { class: "view-head" },
      make("p", { class: "amount-line", text: count(tokens.length, "token") + limit }),
      choice,
    ),
    view,
  );
}

function pieces(tokens, texts) {
  const sources = texts.map((text) => make("p", { class: "source", dir: "auto", text }));
  const show = (token) => {
    sources.forEach((source, segment) => {
      const mark = token && token.segment === segment && token.start !== null ? [token] : [];
      source.replaceChildren(...highlighted(texts[segment], mark));
    });
  };
  const buttons = tokens.map((token) => {
    const kind = ["piece", token.special ? "special" : "", `segment-${token.segment}`].join(" ");
    const place = token.start === null ? "" : `, characters ${token.start} to ${token.end}`;
    const described = `${token.token}, id ${token.id}${place}`;
    return make(
      "button",
      {
        type: "button",
        class: kind,
        "aria-label": described,
        on: {
          pointerenter: () => show(token),
          pointerleave: () => show(null),
          focus: () => show(token),
          blur: () => show(null),
          click: () => announce(described),
        },
      },
      make("bdi", { text: token.token }),
      make("span", { class: "piece-id", text: token.id }),
    );
  });
  roving(buttons);
  return make(
    "div",
    {},
    make("div", { class: "sources" }, ...sources),
    make(
      "div",
      { class: "pieces", role: "group", "aria-label": "Tokens; the arrow keys move among them" },
      ...buttons,
    ),
  );
}

function table(tokens, texts) {
  const points = texts.map(codePoints);
  const columns = [
    ["#", "number"],
    ["Token"],
    ["Id", "number"],
    ["Start", "number"],
    ["End", "number"],
    ["In the text"],
  ];
  const row = (token, index) =>
    make(
      "tr",
      { class: token.special ? "special" : null },
      make("td", { class: "number hint", text: index }),
      make("td", {}, make("bdi", { class: "token", text: token.token })),
      make("td", { class: "number", text: token.id }),
      make("td", { class: "number", text: token.start ?? "" }),
      make("td", { class: "number", text: token.end ?? "" }),
      make("td", {
        dir: "auto",
        text:
          token.start === null
            ? "special"
            : (points[token.segment] ?? []).slice(token.start, token.end).join(""),
      }),
    );
  return scrollableTable("Table of tokens", columns, tokens.map(row));
}
