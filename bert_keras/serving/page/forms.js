// The inputs of a mode: text areas, lines to search, and a list of options.

import { make, newId } from "./dom.js";
import { count, nonBlankLines } from "./text.js";

const MOST_LINES = 1000;
const FEWEST_OPTIONS = 2;

/**
 * Make the inputs of `fields`.
 *
 * `submit` is called by the button with the text `verb`, and on Ctrl+Enter (Command+Enter on a
 * Mac). `example`: `{name, fill()}` of the button that fills in an example.
 * Returns `{element, button, read(), fill(values), check()}`. `check` marks incomplete inputs,
 * focuses the first of them, and returns true if all are complete.
 */
export function makeForm(fields, verb, submit, example) {
  const inputs = new Map(fields.map((field) => [field.name, makeField(field)]));
  const button = make("button", { type: "submit", class: "primary", text: verb });
  const element = make(
    "form",
    {
      class: "form",
      novalidate: true,
      on: {
        submit: (event) => {
          event.preventDefault();
          submit();
        },
        keydown: (event) => {
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          submit();
        },
      },
    },
    ...[...inputs.values()].map((input) => input.element),
    make(
      "div",
      { class: "row actions" },
      button,
      make("button", {
        type: "button",
        class: "quiet",
        text: example.name,
        on: { click: example.fill },
      }),
      make(
        "span",
        { class: "hint keys" },
        make("kbd", { text: "Ctrl" }),
        " + ",
        make("kbd", { text: "Enter" }),
      ),
    ),
  );
  return {
    element,
    button,
    read: () => Object.fromEntries([...inputs].map(([name, input]) => [name, input.read()])),
    fill: (values) => {
      for (const [name, input] of inputs) input.fill(values[name]);
    },
    check: () => {
      const wrong = [...inputs.values()].filter((input) => !input.check());
      wrong[0]?.focus();
      return wrong.length === 0;
    },
  };
}

function makeField(field) {
  return field.kind === "options" ? optionsField(field) : textField(field);
}

/** Return an element for an input's error, and a function that shows or clears it. */
function errorOf(control) {
  const error = make("p", { class: "field-error", id: newId("error") });
  const show = (message) => {
    error.textContent = message;
    control().setAttribute("aria-invalid", message !== "");
    if (message) control().setAttribute("aria-describedby", error.id);
    else control().removeAttribute("aria-describedby");
    return message === "";
  };
  return { error, show };
}

function textField(field) {
  const id = newId(field.name);
  const area = make("textarea", {
    id,
    name: field.name,
    rows: field.rows,
    dir: "auto",
    spellcheck: "false",
  });
  const { error, show } = errorOf(() => area);
  const note = field.optional ? make("span", { class: "hint", text: " (optional)" }) : null;
  const amount = field.kind === "lines" ? make("span", { class: "hint" }) : null;
  const recount = () => {
    if (amount) amount.textContent = count(nonBlankLines(area.value).length, "line");
  };
  area.addEventListener("input", () => {
    show("");
    recount();
  });
  const head = make(
    "div",
    { class: "field-head" },
    make("label", { for: id }, field.label, note),
    amount,
  );
  if (field.mask) head.append(maskButton(area, field.mask));
  return {
    element: make("div", { class: "field" }, head, area, error),
    read: () => area.value,
    fill: (text) => {
      area.value = text ?? "";
      show("");
      recount();
    },
    check: () => show(problemOf(field, area.value)),
    focus: () => area.focus(),
  };
}

function problemOf(field, text) {
  if (!text.trim()) return field.optional ? "" : `\u201c${field.label}\u201d is empty. Write a text.`;
  if (field.mask && !text.includes(field.mask))
    return `Write ${field.mask} where a word is missing.`;
  const lines = field.kind === "lines" ? nonBlankLines(text).length : 0;
  if (lines > MOST_LINES) {
    return `The server searches at most ${count(MOST_LINES, "line")}. These are ${count(lines, "line")}.`;
  }
  return "";
}

/** A button that puts the mask token where the cursor is. */
function maskButton(area, mask) {
  return make("button", {
    type: "button",
    class: "small",
    text: `Insert ${mask}`,
    on: {
      click: () => {
        area.setRangeText(mask, area.selectionStart, area.selectionEnd, "end");
        area.dispatchEvent(new Event("input"));
        area.focus();
      },
    },
  });
}

function optionsField(field) {
  const list = make("ol", { class: "options" });
  const { error, show } = errorOf(() => list.querySelector("input"));
  const inputs = () => [...list.querySelectorAll("input")];

  function renumber() {
    inputs().forEach((input, index) => input.setAttribute("aria-label", `Option ${index + 1}`));
    for (const [index, button] of list.querySelectorAll("button").entries()) {
      button.disabled = inputs().length <= FEWEST_OPTIONS;
      button.setAttribute("aria-label", `Remove option ${index + 1}`);
    }
  }
  function add(text) {
    const input = make("input", {
      type: "text",
      dir: "auto",
      autocomplete: "off",
      on: { input: () => show("") },
    });
    input.value = text;
    const remove = make("button", { type: "button", class: "quiet icon", text: "×" });
    const item = make("li", {}, input, remove);
    remove.addEventListener("click", () => {
      item.remove();
      renumber();
      inputs().at(-1).focus();
    });
    list.append(item);
    renumber();
    return input;
  }
  const more = make("button", {
    type: "button",
    class: "small",
    text: "Add option",
    on: { click: () => add("").focus() },
  });
  return {
    element: make(
      "fieldset",
      { class: "field" },
      make("div", { class: "field-head" }, make("legend", { text: field.label }), more),
      list,
      error,
    ),
    read: () =>
      inputs()
        .map((input) => input.value.trim())
        .filter(Boolean),
    fill: (options) => {
      list.replaceChildren();
      for (const option of options ?? ["", ""]) add(option);
      show("");
    },
    check: () => {
      const enough = inputs().filter((input) => input.value.trim()).length >= FEWEST_OPTIONS;
      return show(enough ? "" : `Write at least ${FEWEST_OPTIONS} options.`);
    },
    focus: () => (inputs().find((input) => !input.value.trim()) ?? inputs()[0]).focus(),
  };
}
