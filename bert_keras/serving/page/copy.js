// The request of an answer as code to copy: curl, Python's standard library, and OpenAI's client.
//
// The code calls the public protocols: TensorFlow Serving's `:predict`, OpenAI's embeddings, and
// Cohere's `/v1/rerank`.

import { copyButton, switcher } from "./controls.js";
import { make } from "./dom.js";
import { readsPairs } from "./modes.js";

// Characters that are invisible or change the direction of a line. As escapes they are visible, so
// that people see all of the code that runs.
const INVISIBLE = /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Return a value as JSON. For texts, numbers and lists of them, this is also valid Python. */
export function asJson(value, indent = undefined) {
  const escape = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value, null, indent).replace(INVISIBLE, escape);
}

/** Quote a text for a POSIX shell. In single quotes, only the single quote itself is special. */
export function shellQuote(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Return where the server is, without a slash at the end. */
export function serverAddress() {
  return new URL(".", document.baseURI).href.replace(/\/$/, "");
}

// Lines of Python that print an answer.
const PRINT_PREDICTION = 'print(answer["predictions"][0])';
const PRINT_RANKS = `for result in answer["results"]:
        print(f"{result['relevance_score']:.3f}", body["documents"][result["index"]])`;

/** Return `{path, body, print}` of the request with the same answer; `print` is a line of Python. */
export function publicRequest(mode, values, model) {
  if (mode.id === "vector" && mode.texts) {
    return embeddingsRequest(mode, values, model, "print(vectors[0])");
  }
  if (mode.id === "search") {
    const [query, ...documents] = mode.texts(values);
    const body = { model: model.name, query, documents };
    return { path: "/v1/rerank", body, print: PRINT_RANKS };
  }
  const path = `/v1/models/${encodeURIComponent(model.name)}:predict`;
  return { path, body: predictBody(mode, values, model), print: PRINT_PREDICTION };
}

function embeddingsRequest(mode, values, model, print) {
  const input = mode.texts(values);
  const body = { model: model.name, input: input.length === 1 ? input[0] : input };
  return { path: "/v1/embeddings", body, print };
}

function predictBody(mode, values, model) {
  if (!mode.request) {
    // Only the names of the inputs are known of a SavedModel that other code wrote.
    const names = model.inputs?.length ? model.inputs : ["text"];
    return { instances: [Object.fromEntries(names.map((name) => [name, values.text]))] };
  }
  const { inputs } = mode.request.body(values);
  // A model that takes one text or two has a named signature for the case that is not the default.
  let signature = {};
  if (inputs.pair && !readsPairs(model)) {
    signature = { signature_name: mode.id === "compare" ? "similarity" : "pairs" };
  }
  if (!inputs.pair && readsPairs(model)) signature = { signature_name: "texts" };
  return { ...signature, instances: [inputs] };
}

export function curlCode({ path, body }, address, withToken) {
  return [
    `curl ${shellQuote(address + path)}`,
    "-H 'Content-Type: application/json'",
    // In double quotes, where the shell replaces the variable by its value.
    ...(withToken ? ['-H "Authorization: Bearer $TOKEN"'] : []),
    `-d ${shellQuote(asJson(body))}`,
  ].join(" \\\n  ");
}

export function pythonCode({ path, body, print }, address, withToken) {
  const imports = ["json", ...(withToken ? ["os"] : []), "urllib.request"];
  const headers = ['"Content-Type": "application/json"'];
  if (withToken) headers.push('"Authorization": "Bearer " + os.environ["TOKEN"]');
  const read =
    path === "/v1/embeddings" ? '    vectors = [item["embedding"] for item in answer["data"]]\n' : "";
  return `${imports.map((name) => `import ${name}`).join("\n")}

body = ${asJson(body, 4)}
request = urllib.request.Request(
    ${asJson(address + path)},
    json.dumps(body).encode(),
    {${headers.join(", ")}},
)
with urllib.request.urlopen(request) as response:
    answer = json.load(response)
${read}    ${print}
`;
}

const COSINE = `
def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.hypot(*a) / math.hypot(*b)
`;
// Lines that print the result of the vectors of OpenAI's client.
const PRINT_VECTORS = {
  vector: "print(vectors[0])",
  compare: "print(cosine(vectors[0], vectors[1]))",
  search: `query, *lines = vectors
scores = [cosine(query, line) for line in lines]
for score, text in sorted(zip(scores, body["input"][1:]), reverse=True):
    print(f"{score:.3f}", text)`,
};

export function openaiCode(mode, values, model, address, withToken) {
  const { body, print } = embeddingsRequest(mode, values, model, PRINT_VECTORS[mode.id]);
  const compares = mode.id !== "vector";
  const key = withToken ? 'os.environ["TOKEN"]' : '"none"';
  const imports = [...(compares ? ["import math"] : []), ...(withToken ? ["import os"] : [])];
  return `${imports.map((line) => `${line}\n`).join("")}${imports.length ? "\n" : ""}from openai import OpenAI
${compares ? `\n${COSINE}\n` : ""}
client = OpenAI(base_url=${asJson(`${address}/v1`)}, api_key=${key})
body = ${asJson(body, 4)}
vectors = [item.embedding for item in client.embeddings.create(**body).data]
${print}
`;
}

/** The element with the code of a request; the reader chooses the language. */
export function codeBlock(mode, values, model, withToken) {
  const sent = publicRequest(mode, values, model);
  const address = serverAddress();
  const languages = [
    { value: "curl", name: "curl", code: curlCode(sent, address, withToken) },
    { value: "python", name: "Python", code: pythonCode(sent, address, withToken) },
  ];
  // The code for OpenAI's client compares vectors by the cosine.
  if (mode.texts && (mode.id === "vector" || model.similarity === "cosine")) {
    languages.push({
      value: "openai",
      name: "OpenAI client",
      code: openaiCode(mode, values, model, address, withToken),
    });
  }
  const code = make("code", { text: languages[0].code });
  const choice = switcher("Language", languages, "curl", (value) => {
    code.textContent = languages.find((language) => language.value === value).code;
  });
  return make(
    "section",
    { class: "code", "aria-label": "The same request as code" },
    make(
      "div",
      { class: "code-head" },
      make("h2", { text: "From your own code" }),
      choice,
      copyButton("Copy", () => code.textContent),
    ),
    make("pre", { tabindex: "0", role: "region", "aria-label": "Code", dir: "ltr" }, code),
  );
}
