// Runs before the first paint, so that neither the theme nor the width of the menu flickers.
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function show() {
  const chosen = localStorage.getItem("berth.theme");
  const theme = chosen || (prefersDark.matches ? "dark" : "light");
  root.dataset.bsTheme = theme;
  root.dataset.menu = localStorage.getItem("berth.menu") || "full";
}

show();
prefersDark.addEventListener("change", show);
addEventListener("storage", show);
addEventListener("berth:theme", show);
