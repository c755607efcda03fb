// Menus are <details>: they work without this file. It closes them as people expect, and remembers the
// sections of the left menu.

export function startMenus() {
  document.addEventListener("click", ({ target }) => closeDropdowns((menu) => !menu.contains(target)));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const open = document.querySelector("details.dropdown-native[open]");
    closeDropdowns(() => true);
    open?.querySelector("summary").focus();
  });
  document.addEventListener("click", ({ target }) => target.closest("[data-dismiss]")?.closest(".notice, [data-toast]")?.remove());
  for (const section of document.querySelectorAll(".menu-section")) rememberSection(section);
}

function closeDropdowns(shouldClose) {
  for (const menu of document.querySelectorAll("details.dropdown-native[open]")) {
    if (shouldClose(menu)) menu.open = false;
  }
}

function rememberSection(section) {
  const key = `berth.section.${section.dataset.section}`;
  if (localStorage.getItem(key) === "closed" && !section.querySelector("[aria-current]")) section.open = false;
  section.addEventListener("toggle", () => {
    if (section.open) localStorage.removeItem(key);
    else localStorage.setItem(key, "closed");
  });
}
