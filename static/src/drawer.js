// Links with data-drawer open beside the page instead of in its place (templates/includes/drawer.html). The address then
// ends in ?open=<name>, so that it can be sent and goes with Back.
import htmx from "htmx.org";
import { gettext } from "./words.js";

export function startDrawer() {
  const dialog = document.getElementById("drawer");
  if (!dialog) return;
  const body = dialog.querySelector("#drawer-body");
  const title = dialog.querySelector("#drawer-title");
  const page = dialog.querySelector("[data-drawer-page]");

  const show = (link) => {
    page.href = link.href;
    title.textContent = link.dataset.drawerTitle || link.textContent.trim() || gettext("Details");
    body.replaceChildren();
    if (!dialog.open) dialog.showModal();
    htmx.ajax("GET", link.href, { target: body, swap: "innerHTML" });
  };
  const follow = () => {
    const name = new URLSearchParams(location.search).get("open");
    const link = name && document.querySelector(`a[data-drawer="${CSS.escape(name)}"]`);
    if (link) show(link);
    else if (dialog.open) dialog.close();
  };

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-drawer]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || location.pathname === new URL(link.href).pathname) return;
    event.preventDefault();
    history.pushState({ drawer: true }, "", withOpen(link.dataset.drawer));
    show(link);
  });
  dialog.addEventListener("close", () => {
    body.replaceChildren();
    if (!new URLSearchParams(location.search).has("open")) return;
    if (history.state?.drawer) history.back();
    else history.replaceState(null, "", withOpen(null));
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  // What is shown was written for its own address: "?page=2" is of that, not of the page behind.
  body.addEventListener("htmx:afterSwap", () => {
    for (const link of body.querySelectorAll('a[href^="?"]')) link.href = new URL(link.getAttribute("href"), page.href);
  });
  addEventListener("popstate", follow);
  follow();
}

function withOpen(name) {
  const url = new URL(location.href);
  if (name) url.searchParams.set("open", name);
  else url.searchParams.delete("open");
  return url;
}
