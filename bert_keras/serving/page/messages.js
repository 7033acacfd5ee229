// Messages: errors, notices, and the line that moves while the server works.

import { make } from "./dom.js";
import { count } from "./text.js";

const TITLES = {
  0: "The server does not answer",
  401: "A token is needed",
  404: "The server does not have this",
  413: "The text is too long for this server",
  429: "The server is busy",
  503: "The server is not ready",
};

/** A box with an error of the server, and a button to try again. */
export function errorBox(error, retry = null) {
  const status = error.status ?? null;
  let title = TITLES[status];
  if (!title && status === null) title = "The page could not show the answer";
  title ??= status >= 500 ? "The server could not answer" : "The server did not accept the request";
  const wait = error.retryAfter ? ` Try again in ${count(error.retryAfter, "second")}.` : "";
  return make(
    "div",
    { class: "error", role: "alert" },
    make(
      "p",
      { class: "error-title" },
      title,
      status ? make("span", { class: "hint", text: ` ${status}` }) : null,
    ),
    make("p", { dir: "auto", text: error.message + wait }),
    retry
      ? make("button", { type: "button", class: "small", text: "Try again", on: { click: retry } })
      : null,
  );
}

/** A message that is not an error: a view that is missing, or a text that was cut off. */
export function notice(text) {
  return make("p", { class: "notice", text });
}

/** The notice that the model read only the beginning of a text. */
export function truncation(model) {
  const part = model.max_length
    ? `the first ${count(model.max_length, "token")}`
    : "the first tokens";
  return notice(`The text is too long for this model, which read only ${part}.`);
}

/** The notice that a model does not know many of the words, or null if it knows most of them. */
export function unknownWords(words) {
  if (!words || 4 * words.unknown < words.tokens || !words.unknown) return null;
  return notice(
    `${words.unknown} of ${count(words.tokens, "token")} are unknown to this model, ` +
      "so do not trust its answer.",
  );
}

export function busyLine() {
  return make("div", { class: "busy", "aria-hidden": "true" });
}
