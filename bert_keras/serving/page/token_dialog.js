// The dialog that asks for the token of a server that was started with `--token`.

import { hasToken, onTokenNeeded, setToken } from "./api.js";

const get = (id) => document.getElementById(id);

/** Ask for a token when the server wants one; `changed` is called after a change by the reader. */
export function installTokenDialog(changed) {
  onTokenNeeded(async (wasWrong) => {
    const answer = await question(wasWrong ? "The server refused this token." : "");
    get("token-button").hidden = answer === null && !hasToken();
    return answer;
  });
  get("token-button").hidden = !hasToken();
  get("token-button").addEventListener("click", async () => {
    const answer = await question("");
    if (answer === null) return;
    setToken(answer);
    changed();
  });
}

/** Show the dialog; return the token, or null if the reader cancels. */
function question(message) {
  const dialog = get("token-dialog");
  const input = get("token-input");
  get("token-wrong").textContent = message;
  input.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    get("token-form").onsubmit = (event) => {
      event.preventDefault();
      if (input.value.trim()) dialog.close("use");
      else input.focus();
    };
    get("token-cancel").onclick = () => dialog.close("");
    // Escape closes the dialog too, and leaves `returnValue` empty.
    dialog.onclose = () => {
      resolve(dialog.returnValue === "use" ? input.value.trim() : null);
      input.value = "";
    };
  });
}
