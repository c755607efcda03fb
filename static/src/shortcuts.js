// Single keys open pages: those that stand in templates/includes/shortcuts.html. Never while somebody types, and not in
// a browser in which they were switched off there.

const NEXT_KEY_MS = 1200;
const OFF = "berth.shortcuts";

export function startShortcuts() {
  const overlay = document.getElementById("shortcuts");
  if (!overlay) return;
  const pages = new Map([...overlay.querySelectorAll("[data-keys]")].map(({ dataset }) => [dataset.keys, dataset.keysUrl]));
  let pressed = "";
  let timer;

  document.addEventListener("keydown", (event) => {
    if (localStorage.getItem(OFF) === "off" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open], :popover-open")) return;
    clearTimeout(timer);
    const keys = `${pressed} ${event.key}`.trim();
    pressed = "";
    if (event.key === "?") overlay.showModal();
    else if (event.key === "/") document.dispatchEvent(new CustomEvent("berth:open-palette"));
    else if (pages.has(keys)) location.assign(pages.get(keys));
    else if ([...pages.keys()].some((known) => known.startsWith(`${keys} `))) {
      pressed = keys;
      timer = setTimeout(() => (pressed = ""), NEXT_KEY_MS);
      return;
    } else return;
    event.preventDefault();
  });

  const onOff = overlay.querySelector("[data-shortcuts-switch]");
  onOff.checked = localStorage.getItem(OFF) !== "off";
  onOff.addEventListener("change", () => (onOff.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "off")));
  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-open-shortcuts]")) overlay.showModal();
    else if (target.closest("[data-close-dialog]")) target.closest("dialog").close();
  });
}

function isTyping(element) {
  return element.closest("input, textarea, select, [contenteditable], .xterm, [role=textbox]") !== null;
}
