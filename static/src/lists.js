// Lists: tick all rows of the page and see how many are ticked; ticks outlive the refresh of the rows. Empty fields of a
// filter form stay out of the address.
import { attach } from "./features.js";
import { format, ngettext } from "./words.js";

class Picks {
  constructor(bar) {
    this.bar = bar;
    this.count = bar.querySelector("[data-bulk-count]");
    this.picked = new Set();
    this.stop = new AbortController();
    const { signal } = this.stop;
    document.addEventListener("change", (event) => this.changed(event.target), { signal });
    document.body.addEventListener("htmx:afterSettle", () => this.restore(), { signal });
    this.read();
    this.show();
  }

  get boxes() {
    return [...document.querySelectorAll(`[data-pick][form="${this.bar.id}"]`)];
  }

  changed(box) {
    if (box.matches("[data-pick-all]")) for (const each of this.boxes) each.checked = box.checked;
    else if (!box.matches("[data-pick]")) return;
    this.read();
    this.show();
  }

  read() {
    this.picked = new Set(this.boxes.filter((box) => box.checked).map((box) => box.value));
  }

  restore() {
    for (const box of this.boxes) box.checked = this.picked.has(box.value);
    this.read();
    this.show();
  }

  show() {
    const boxes = this.boxes;
    const size = this.picked.size;
    this.bar.hidden = size === 0;
    this.count.textContent = format(ngettext("{count} chosen", "{count} chosen", size), { count: size });
    const all = document.querySelector("[data-pick-all]");
    if (!all) return;
    all.hidden = boxes.length === 0;
    all.checked = size > 0 && size === boxes.length;
    all.indeterminate = size > 0 && size < boxes.length;
  }

  end() {
    this.stop.abort();
  }
}

function leaveOutEmpty({ currentTarget }) {
  for (const field of currentTarget.elements) if (field.name && field.value === "") field.disabled = true;
}

attach("[data-bulk]", (bar) => new Picks(bar));
for (const form of document.querySelectorAll("[data-filters]")) form.addEventListener("submit", leaveOutEmpty);
addEventListener("pageshow", () => document.querySelectorAll("[data-filters] :disabled").forEach((field) => (field.disabled = false)));
