// The command palette: Ctrl-K or ⌘K opens it, the arrows choose, Enter goes there (with Ctrl or ⌘ in a new tab), Escape
// closes it. The server says what fits (templates/includes/palette_options.html).
import { csrfToken, fromThisPage, openedBy } from "./requests.js";
import { format, gettext, ngettext } from "./words.js";

const ASK_AFTER_MS = 90;

export function startPalette() {
  const dialog = document.getElementById("palette");
  if (dialog) new Palette(dialog).follow();
}

class Palette {
  constructor(dialog) {
    this.dialog = dialog;
    this.input = dialog.querySelector("input");
    this.list = dialog.querySelector("[role=listbox]");
    this.count = dialog.querySelector("[role=status]");
    this.chosen = -1;
  }

  follow() {
    document.addEventListener("keydown", (event) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      this.dialog.open ? this.dialog.close() : this.open();
    });
    document.addEventListener("click", (event) => {
      if (!event.target.closest("[data-palette]") || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.open();
    });
    document.addEventListener("berth:open-palette", () => this.open());
    this.input.addEventListener("input", () => this.askSoon());
    this.input.addEventListener("keydown", (event) => this.pressed(event));
    this.list.addEventListener("click", (event) => this.go(event.target.closest("[role=option]"), event));
    this.list.addEventListener("pointermove", (event) => this.choose(this.options.indexOf(event.target.closest("[role=option]"))));
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
  }

  get options() {
    return [...this.list.querySelectorAll("[role=option]")];
  }

  open() {
    if (this.dialog.open) return;
    this.dialog.showModal();
    this.input.select();
    this.ask();
  }

  askSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), ASK_AFTER_MS);
  }

  /** An answer that came after a newer question is dropped. */
  async ask() {
    this.asking?.abort();
    this.asking = new AbortController();
    const { signal } = this.asking;
    const url = `${this.dialog.dataset.searchUrl}?q=${encodeURIComponent(this.input.value)}`;
    try {
      const answer = await fetch(url, { headers: fromThisPage({ "HX-Request": "true" }), signal });
      if (answer.redirected || answer.headers.has("HX-Refresh")) return location.reload();
      this.list.innerHTML = await answer.text();
      this.chosen = -1;
      this.choose(0);
      const count = this.options.length;
      this.count.textContent = this.list.textContent.trim() && format(ngettext("{count} result", "{count} results", count), { count });
    } catch (error) {
      if (error.name !== "AbortError") this.list.textContent = gettext("The portal cannot be reached. Type again in a moment.");
    }
  }

  choose(index) {
    const { options } = this;
    if (index < 0 || index >= options.length || index === this.chosen) return;
    options[this.chosen]?.setAttribute("aria-selected", "false");
    this.chosen = index;
    options[index].setAttribute("aria-selected", "true");
    options[index].scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", options[index].id);
  }

  pressed(event) {
    const { length } = this.options;
    const steps = { ArrowDown: (this.chosen + 1) % length, ArrowUp: (this.chosen - 1 + length) % length, PageDown: length - 1, PageUp: 0 };
    if (event.key in steps) this.choose(steps[event.key]);
    else if (event.key === "Enter") this.go(this.options[this.chosen], event);
    else return;
    event.preventDefault();
  }

  go(option, event) {
    if (!option) return;
    const { url, post } = option.dataset;
    if (post !== undefined) submit(url, new URLSearchParams(post));
    else if (event.ctrlKey || event.metaKey) open(url, "_blank", "noopener");
    else location.assign(url);
    this.dialog.close();
  }
}

function submit(url, fields) {
  const form = Object.assign(document.createElement("form"), { method: "post", action: url, hidden: true });
  const back = location.pathname + location.search;
  for (const [name, value] of [["csrfmiddlewaretoken", csrfToken()], ["csrf_opened_by", openedBy()], ["back", back], ...fields]) {
    form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
  }
  document.body.append(form);
  form.submit();
}
