// Requests to the server, and the token that some servers ask for.

const KEY = "bert-keras-token";
let token = null;
let ask = async () => null;
let asking = null; // the open question for a token, which all waiting requests share

try {
  token = sessionStorage.getItem(KEY);
} catch {
  // Browsers that block storage raise an error; the token then lasts until the page is closed.
}

/** An error of the server, or `status` 0 if the server could not be reached. */
export class ServerError extends Error {
  constructor(message, status, retryAfter = null) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** Set the function that asks the reader for a token; it gets whether the last one was wrong. */
export function onTokenNeeded(question) {
  ask = question;
}

/** Return whether requests carry a token. */
export function hasToken() {
  return token !== null;
}

/** Keep a token for this tab; null forgets it. */
export function setToken(value) {
  token = value;
  try {
    if (value === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, value);
  } catch {
    // See above.
  }
}

/** Return the path of a model's interface. */
export function pathOf(model, action) {
  return `api/models/${encodeURIComponent(model.name)}/${action}`;
}

/** Send a request, with `body` as JSON if there is one, and return the JSON of the answer. */
export async function request(path, body = null, signal = undefined) {
  for (;;) {
    const sent = token;
    const response = await send(path, body, signal);
    if (response.status !== 401) return read(response);
    // Another request may have got a new token in the meantime.
    if (token !== sent) continue;
    asking ??= ask(sent !== null).finally(() => {
      asking = null;
    });
    const answer = await asking;
    if (answer === null) throw new ServerError("This server needs a token.", 401);
    setToken(answer);
  }
}

async function send(path, body, signal) {
  const headers = {};
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  if (body !== null) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, {
      method: body === null ? "GET" : "POST",
      headers,
      body: body === null ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("Check that it is still running, and try again.", 0);
  }
}

async function read(response) {
  let content = null;
  try {
    content = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (response.ok && content !== null) return content;
  const seconds = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  const message =
    typeof content?.error === "string" ? content.error : "The answer of the server is not JSON.";
  throw new ServerError(message, response.status, Number.isNaN(seconds) ? null : seconds);
}
