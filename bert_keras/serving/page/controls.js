// Controls that several parts of the page use; each works with the keyboard alone.

import { announce, make, newId } from "./dom.js";

/**
 * A small group of radio buttons that look like one switch.
 *
 * `options`: `[{value, name}]`. `changed` is called with the new value.
 */
export function switcher(legend, options, value, changed) {
  const name = newId("switch");
  const group = make(
    "fieldset",
    { class: "switcher" },
    make("legend", { class: "only-read", text: legend }),
  );
  for (const option of options) {
    const input = make("input", {
      type: "radio",
      name,
      value: option.value,
      checked: option.value === value,
      on: { change: () => changed(option.value) },
    });
    group.append(make("label", {}, input, make("span", { text: option.name })));
  }
  return group;
}

/** A labelled `<select>`; `options`: `[{value, name}]`. */
export function chooser(label, options, value, changed) {
  const id = newId("choose");
  const select = make("select", { id, on: { change: () => changed(select.value) } });
  for (const option of options) {
    select.append(make("option", { value: option.value, text: option.name }));
  }
  select.value = value;
  return {
    element: make("span", { class: "chooser" }, make("label", { for: id, text: label }), select),
    select,
  };
}

/**
 * Let the arrow keys, Home and End move the focus among buttons, which are one stop of the Tab key.
 *
 * `columns`: the number of buttons in a row, for the up and down keys.
 */
export function roving(buttons, columns = 1) {
  if (!buttons.some((button) => button.tabIndex === 0)) {
    buttons.forEach((button, index) => (button.tabIndex = index === 0 ? 0 : -1));
  }
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
  buttons.forEach((button, index) => {
    button.addEventListener("focus", () => {
      for (const other of buttons) other.tabIndex = other === button ? 0 : -1;
    });
    button.addEventListener("keydown", (event) => {
      let next = index + (steps[event.key] ?? 0);
      if (event.key === "Home") next = 0;
      if (event.key === "End") next = buttons.length - 1;
      if (next === index || next < 0 || next >= buttons.length) return;
      event.preventDefault();
      buttons[next].focus();
    });
  });
}

/**
 * Tabs and their panels.
 *
 * `tabs`: `[{id, name, panel}]`. `opened` is called with the id of a tab that the reader opens.
 * Returns `{element, open(id), current()}`.
 */
export function tabList(label, tabs, opened) {
  const list = make("div", { class: "tabs", role: "tablist", "aria-label": label });
  let open = null;
  const buttons = tabs.map(({ id, name, panel }) => {
    const button = make("button", {
      type: "button",
      role: "tab",
      id: `tab-${id}`,
      "aria-controls": `panel-${id}`,
      text: name,
      on: { click: () => choose(id) },
    });
    panel.id = `panel-${id}`;
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", button.id);
    panel.tabIndex = -1;
    return button;
  });
  list.append(...buttons);
  roving(buttons);
  buttons.forEach((button, index) =>
    button.addEventListener("focus", () => choose(tabs[index].id)),
  );

  function choose(id) {
    if (id === open) return;
    open = id;
    tabs.forEach((tab, index) => {
      tab.panel.hidden = tab.id !== id;
      buttons[index].setAttribute("aria-selected", tab.id === id);
      buttons[index].tabIndex = tab.id === id ? 0 : -1;
    });
    opened(id);
  }
  return {
    element: make("div", {}, list, ...tabs.map((tab) => tab.panel)),
    open: choose,
    current: () => open,
  };
}

/** Copy a text, and return whether that worked. A page without HTTPS has no `navigator.clipboard`. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", { class: "only-read" });
    area.value = text;
    const focused = document.activeElement;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    focused?.focus();
    return done;
  }
}

/** A button that copies `text()` and says so. */
export function copyButton(name, text) {
  const button = make("button", { type: "button", class: "small", text: name });
  button.addEventListener("click", async () => {
    const message = (await copyText(text())) ? "Copied" : "The browser does not allow copying";
    button.textContent = message;
    announce(message);
    setTimeout(() => (button.textContent = name), 1500);
  });
  return button;
}
