// The page: choose a model, send it a text, and see the answer, the tokens and the attention.

import { hasToken, pathOf, request } from "./api.js";
import { showAttention } from "./attention.js";
import { chooser, switcher, tabList } from "./controls.js";
import { codeBlock } from "./copy.js";
import { announce, make } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { makeForm } from "./forms.js";
import { busyLine, errorBox, notice, truncation, unknownWords } from "./messages.js";
import { taskOf } from "./modes.js";
import { makeReader } from "./reader.js";
import { count } from "./text.js";
import { installTokenDialog } from "./token_dialog.js";
import { showTokens } from "./tokens.js";

const side = document.getElementById("side");
const result = document.getElementById("result");
const drafts = new Map(); // the inputs of the reader, for each model and mode

let models = [];
let leaveModel = () => {}; // keeps the inputs of the open model and stops its requests

/** Read the models of the server, and open the one that the address names. */
async function start() {
  side.replaceChildren(busyLine());
  result.replaceChildren();
  try {
    models = (await request("api/models")).models;
  } catch (error) {
    side.replaceChildren(errorBox(error, start));
    return;
  }
  openFromAddress();
  if (!models.length) side.replaceChildren(notice("This server has no models."));
}

function openFromAddress() {
  if (!models.length) return;
  const address = new URLSearchParams(location.hash.slice(1));
  const model = models.find(({ name }) => name === address.get("model")) ?? models[0];
  openModel(model, address.get("mode"));
}

/** Change the address, so that a link or a reload opens the same model and mode. */
function keepInAddress(model, mode, modes) {
  const address = new URLSearchParams({ model: model.name });
  if (mode !== modes[0]) address.set("mode", mode.id);
  history.replaceState(null, "", `#${address}`);
}

function openModel(model, modeId = null) {
  leaveModel();
  const task = taskOf(model);
  const mode = task.modes.find(({ id }) => id === modeId) ?? task.modes[0];
  keepInAddress(model, mode, task.modes);
  document.title = `${model.name} \u00b7 bert-keras`;

  const key = JSON.stringify([model.name, mode.id]);
  const examples = examplesOf(mode, model);
  let example = 0;
  const exampleButton = {
    name: examples.length > 1 ? "Another example" : "Example",
    fill: () => {
      example = (example + 1) % examples.length;
      form.fill(examples[example]);
    },
  };
  const form = makeForm(mode.fields(model), mode.verb, run, exampleButton);
  form.fill(drafts.get(key) ?? examples[0]);

  const texts = () => mode.reads(form.read());
  const { answer, readers, tabs } = makeTabs(model, texts);
  side.replaceChildren(...about(model, task, mode), form.element);
  result.replaceChildren(tabs.element);
  answer.append(
    mode.request
      ? notice(`Press \u201c${mode.verb}\u201d to see the answer here.`)
      : unknown(model, mode, form),
  );
  tabs.open("answer");

  let running = null;
  leaveModel = () => {
    drafts.set(key, form.read());
    running?.abort();
  };

  async function run() {
    if (!form.check()) return;
    if (!mode.request) {
      tabs.open("tokens");
      readers.tokens(texts(), true);
      return;
    }
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    const values = form.read();
    const busy = busyLine();
    answer.prepend(busy);
    answer.setAttribute("aria-busy", "true");
    form.button.setAttribute("aria-disabled", "true");
    announce("Working\u2026");
    readers[tabs.current()]?.(texts(), true);
    try {
      const reply = await request(
        pathOf(model, mode.request.action),
        mode.request.body(values),
        signal,
      );
      if (signal.aborted) return;
      const shown = mode.show(reply, values, model);
      const code = codeBlock(mode, values, model, hasToken());
      answer.replaceChildren(...answerParts(shown, reply, model), code);
      announce(shown.summary);
      bringIntoView();
    } catch (error) {
      if (signal.aborted) return;
      announce("");
      answer.replaceChildren(errorBox(error, run));
      tabs.open("answer");
    } finally {
      if (!signal.aborted) {
        busy.remove();
        answer.removeAttribute("aria-busy");
        form.button.removeAttribute("aria-disabled");
      }
    }
  }
}

/** Make the tabs of a model; `texts()` returns the texts for the views of tokens and attention. */
function makeTabs(model, texts) {
  const [answer, tokens, attention] = [1, 2, 3].map(() => make("div", { class: "panel" }));
  const readers = {
    tokens: makeReader(tokens, model, "tokens", (reply, text) => showTokens(reply, text, model)),
    attention: makeReader(attention, model, "attention", (reply) => showAttention(reply, model)),
  };
  const panels = [
    { id: "answer", name: "Answer", panel: answer },
    { id: "tokens", name: "Tokens", panel: tokens },
    { id: "attention", name: "Attention", panel: attention },
  ];
  const tabs = tabList("Views", panels, (id) => readers[id]?.(texts()));
  return { answer, readers, tabs };
}

/** The answer, a notice if the text was cut off, and the time and version of the model. */
function answerParts(shown, reply, model) {
  const facts = [`${Math.max(1, Math.round(reply.milliseconds)).toLocaleString("en")} ms`];
  if (reply.version) facts.push(`version ${reply.version}`);
  return [
    ...[reply.truncated && truncation(model), unknownWords(reply.words)].filter(Boolean),
    shown.element,
    make("p", { class: "hint meta", text: facts.join(" \u00b7 ") }),
  ];
}

/** On narrow screens the answer is below the inputs: scroll to it if it starts outside the window. */
function bringIntoView() {
  if (result.getBoundingClientRect().top > window.innerHeight * 0.8) {
    result.scrollIntoView({ block: "start" });
  }
}

function examplesOf(mode, model) {
  const mask = model.mask_token ?? "[MASK]";
  return EXAMPLES[mode.id].map((values) =>
    values.text ? { ...values, text: values.text.replaceAll("{mask}", mask) } : values,
  );
}

/** The top of the left side: the model, its task and its modes. */
function about(model, task, mode) {
  const parts = [];
  if (models.length > 1) {
    const names = models.map(({ name }) => ({ value: name, name }));
    const { element } = chooser("Model", names, model.name, (name) => {
      openModel(models.find((other) => other.name === name));
      side.querySelector(".model-choice select").focus();
    });
    element.classList.add("model-choice");
    parts.push(element);
  } else {
    parts.push(make("p", { class: "model-name", dir: "auto", text: model.name }));
  }
  parts.push(make("h1", { text: task.title }));
  if (task.sentence) parts.push(make("p", { class: "lead", text: task.sentence }));
  const facts = [model.format.replaceAll("_", " "), model.backend, model.dtype];
  if (model.max_length) facts.push(`up to ${count(model.max_length, "token")}`);
  parts.push(
    make("p", { class: "hint model-facts", text: facts.filter(Boolean).join(" \u00b7 ") }),
  );
  if (task.modes.length > 1) {
    const options = task.modes.map(({ id, name }) => ({ value: id, name }));
    parts.push(
      switcher("Mode", options, mode.id, (id) => {
        openModel(model, id);
        side.querySelector(".switcher input:checked").focus();
      }),
    );
  }
  return parts;
}

/** The answer panel of a model whose outputs the page does not know. */
function unknown(model, mode, form) {
  const why =
    model.why_not?.answer ?? "The page does not know the inputs and outputs of this model.";
  return make("div", {}, notice(why), codeBlock(mode, form.read(), model, hasToken()));
}

window.addEventListener("hashchange", openFromAddress);
installTokenDialog(start);
start();
