// Theme and menu width; both live in localStorage and are applied by theme.js.

export function startThemeSwitch() {
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.addEventListener("click", () => choose("berth.theme", button.dataset.themeChoice));
  }
  for (const button of document.querySelectorAll("[data-menu-choice]")) {
    button.addEventListener("click", () => choose("berth.menu", button.dataset.menuChoice));
  }
  mark();
}

function choose(key, value) {
  if (value) localStorage.setItem(key, value);
  else localStorage.removeItem(key);
  dispatchEvent(new Event("berth:theme"));
  mark();
}

function mark() {
  const theme = localStorage.getItem("berth.theme") ?? "";
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.setAttribute("aria-pressed", String(button.dataset.themeChoice === theme));
  }
}
