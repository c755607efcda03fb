// <button data-copy="#id"> copies the text of that element; its label says so for a moment.
import { gettext } from "./words.js";

export function startCopyFields() {
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-copy]");
    if (!button) return;
    const source = document.querySelector(button.dataset.copy);
    const label = button.querySelector("[data-copy-label]");
    label.textContent = (await copy(source)) ? gettext("Copied") : gettext("Press Ctrl-C");
    setTimeout(() => (label.textContent = gettext("Copy")), 1600);
  });
}

/** Browsers allow the clipboard on secure origins only; elsewhere the text is selected for Ctrl-C. */
async function copy(source) {
  try {
    await navigator.clipboard.writeText(source.textContent.trim());
    return true;
  } catch {
    getSelection().selectAllChildren(source);
    return false;
  }
}
