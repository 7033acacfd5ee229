// The modes of the page: the inputs, the request, and the view of the answer.
//
// A task has one mode. Models with vectors have three: compare two texts, search lines, and return
// a vector.

import { showChoices, showLabels, showNumbers } from "./bars.js";
import { showEntities } from "./entities.js";
import { showMasks } from "./masks.js";
import { showSpans } from "./spans.js";
import { nonBlankLines } from "./text.js";
import { showSearch, showSimilarity, showVector } from "./vectors.js";

const TEXT = { name: "text", label: "Text", rows: 6 };
const PAIR = { name: "pair", label: "Second text", rows: 4 };

const only = (values, names) =>
  Object.fromEntries(
    names.filter((name) => values[name]?.length).map((name) => [name, values[name]]),
  );
const answer = (...names) => ({
  action: "answer",
  body: (values) => ({ inputs: only(values, names) }),
});
/** The inputs of a model that reads one text, two texts, or one text and an optional second one. */
function textAndPair(model) {
  if (model.takes_pairs) return [TEXT, { ...PAIR, rows: 2, optional: true }];
  return readsPairs(model) ? [TEXT, PAIR] : [TEXT];
}
// The texts that the token and attention views read; `pair` is a second segment of the same row.
const oneText = (values) => [{ name: "Text", text: values.text }];
const onePair = (values) => [{ name: "Text", ...only(values, ["text", "pair"]) }];

/**
 * Every mode has:
 * - `name`: of the switch, where a model has several modes; `verb`: the button's text;
 * - `fields(model)`: the inputs, `{name, label, kind, rows, optional}`;
 * - `request`: the action of the interface, and the body from the values of the inputs;
 * - `reads(values)`: the texts whose tokens can be shown;
 * - `show(reply, values, model)`: the element with the answer, and `summary`, a sentence;
 * - `texts(values)`: only for modes that compare vectors: the texts to send for embeddings.
 */
const MODES = {
  labels: {
    verb: "Classify",
    fields: textAndPair,
    request: answer("text", "pair"),
    reads: onePair,
    show: showLabels,
  },
  pair: {
    verb: "Classify",
    fields: () => [{ ...TEXT, label: "First text", rows: 4 }, PAIR],
    request: answer("text", "pair"),
    reads: onePair,
    show: showLabels,
  },
  regression: {
    verb: "Predict",
    fields: textAndPair,
    request: answer("text", "pair"),
    reads: onePair,
    show: showNumbers,
  },
  entities: {
    verb: "Find entities",
    fields: () => [{ ...TEXT, rows: 8 }],
    request: answer("text"),
    reads: oneText,
    show: showEntities,
  },
  answers: {
    verb: "Answer",
    fields: () => [
      { name: "question", label: "Question", rows: 2 },
      { name: "context", label: "Context", rows: 10 },
    ],
    request: {
      action: "answer",
      body: (values) => ({ inputs: only(values, ["question", "context"]), top_k: 5 }),
    },
    reads: (values) => [{ name: "Text", text: values.question, pair: values.context }],
    show: showSpans,
  },
  choices: {
    verb: "Choose",
    fields: () => [
      { name: "prompt", label: "Beginning", rows: 3 },
      { name: "options", label: "Options", kind: "options" },
    ],
    request: answer("prompt", "options"),
    reads: (values) =>
      values.options.map((option, index) => ({
        name: `Option ${index + 1}`,
        text: values.prompt,
        pair: option,
      })),
    show: showChoices,
  },
  masks: {
    verb: "Fill in",
    fields: (model) => [{ ...TEXT, mask: model.mask_token ?? "[MASK]" }],
    request: {
      action: "answer",
      body: (values) => ({ inputs: only(values, ["text"]), top_k: 8 }),
    },
    reads: oneText,
    show: showMasks,
  },
  compare: {
    name: "Two texts",
    verb: "Compare",
    fields: () => [{ ...TEXT, label: "First text", rows: 4 }, PAIR],
    request: answer("text", "pair"),
    reads: (values) => [
      { name: "First text", text: values.text },
      { name: "Second text", text: values.pair },
    ],
    texts: (values) => [values.text, values.pair],
    show: showSimilarity,
  },
  search: {
    name: "Search",
    verb: "Search",
    fields: () => [
      { name: "query", label: "Look for", rows: 2 },
      { name: "lines", label: "Lines to search", kind: "lines", rows: 12 },
    ],
    request: {
      action: "search",
      body: (values) => ({ query: values.query, lines: nonBlankLines(values.lines) }),
    },
    reads: (values) => [{ name: "Query", text: values.query }],
    texts: (values) => [values.query, ...nonBlankLines(values.lines)],
    show: showSearch,
  },
  vector: {
    name: "One text",
    verb: "Get vector",
    fields: () => [TEXT],
    request: answer("text"),
    reads: oneText,
    texts: (values) => [values.text],
    show: showVector,
  },
  unknown: { verb: "Show tokens", fields: () => [TEXT], request: null, reads: oneText },
};

// Task -> title, one sentence about it, and modes.
const TASKS = {
  text_classification: ["Text classification", "Says which label fits a text.", ["labels"]],
  multi_label_classification: [
    "Multi-label classification",
    "Says which labels fit a text: none, one or several.",
    ["labels"],
  ],
  text_regression: ["Text regression", "Predicts a number for a text.", ["regression"]],
  pair_classification: ["Pair classification", "Says which label fits two texts.", ["pair"]],
  token_classification: [
    "Token classification",
    "Finds names and other entities in a text.",
    ["entities"],
  ],
  question_answering: [
    "Question answering",
    "Finds the answer to a question in a text.",
    ["answers"],
  ],
  multiple_choice: ["Multiple choice", "Chooses the option that fits best.", ["choices"]],
  text_ranking: ["Text ranking", "Says how well a text answers a query.", ["regression"]],
  sentence_similarity: [
    "Sentence similarity",
    "Says how close texts are in meaning.",
    ["compare", "search", "vector"],
  ],
  feature_extraction: [
    "Feature extraction",
    "Turns a text into a vector.",
    ["vector", "compare", "search"],
  ],
  fill_mask: ["Fill mask", "Fills in words that are left out.", ["masks"]],
  pretraining: ["Pretraining", "Fills in words that are left out.", ["masks"]],
};

/** Return `{title, sentence, modes}` for a model; each mode has its `id`. */
export function taskOf(model) {
  const [title, sentence, ids] = TASKS[model.task] ?? ["Other model", "", []];
  const can = {
    compare: model.can.similarity,
    search: model.can.search,
    vector: model.can.search || !readsPairs(model),
  };
  const modes = model.can.answer ? ids.filter((id) => can[id] ?? true) : [];
  const all = modes.length ? modes : ["unknown"];
  return { title, sentence, modes: all.map((id) => ({ id, ...modeOf(id, model) })) };
}

/** Return whether the model answers two texts together by default. */
export function readsPairs(model) {
  return (model.inputs ?? []).includes("pair");
}

function modeOf(id, model) {
  if (id === "compare" && readsPairs(model)) {
    // Without vectors, the model reads both texts in one row. With them, it reads each text alone.
    const reads = model.can.search ? MODES.compare.reads : onePair;
    return { ...MODES.compare, reads, texts: null };
  }
  return MODES[id];
}
