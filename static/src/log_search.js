// Search in a live log: how often, next and previous, without touching its text (CSS highlights).
import { rangeIn } from "./log_text.js";
import { format, gettext } from "./words.js";

const MOST = 5000;
const MOST_MARKED = 1000;
const AGAIN_MS = 400;

export class LogSearch {
  /** `text()` gives the LogText, `reveal(range)` brings a range into sight. */
  constructor(frame, { text, reveal, on }) {
    this.input = frame.querySelector("[data-log-search]");
    this.count = frame.querySelector("[data-log-count]");
    this.steps = frame.querySelectorAll("[data-log-step]");
    this.text = text;
    this.reveal = reveal;
    this.found = [];
    this.at = -1;
    on(this.input, "input", () => this.search());
    on(this.input, "keydown", (event) => this.stepByKey(event));
    for (const button of this.steps) on(button, "click", () => this.step(Number(button.dataset.logStep)));
  }

  /** From the last place on, which is the news. */
  search() {
    this.look();
    this.at = this.found.length - 1;
    this.mark();
    if (this.at >= 0) this.reveal(this.rangeAt(this.at));
  }

  /** The text has changed: the chosen place stays, whatever came or went. */
  again() {
    if (!this.input.value) return;
    this.timer ??= setTimeout(() => {
      this.timer = null;
      const chosen = this.found[this.at];
      const nth = chosen && this.found.slice(0, this.at).filter(({ line }) => line === chosen.line).length;
      this.look();
      const first = chosen ? this.found.findIndex(({ line }) => line === chosen.line) : -1;
      this.at = first === -1 ? Math.min(this.at, this.found.length - 1) : first + nth;
      this.mark();
    }, AGAIN_MS);
  }

  look() {
    this.found = this.input.value ? this.text().find(this.input.value, MOST) : [];
  }

  step(by) {
    if (!this.found.length) return;
    this.at = (this.at + by + this.found.length) % this.found.length;
    this.mark();
    this.reveal(this.rangeAt(this.at));
  }

  stepByKey(event) {
    if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
    else if (event.key !== "Escape" || !this.input.value) return;
    else {
      this.input.value = "";
      this.search();
    }
    event.preventDefault();
  }

  mark() {
    const total = this.found.length === MOST ? `${MOST}+` : this.found.length;
    const told = this.found.length ? format(gettext("{number} of {total}"), { number: this.at + 1, total }) : gettext("Not found");
    this.count.textContent = this.input.value ? told : "";
    for (const button of this.steps) button.disabled = !this.found.length;
    const from = Math.max(0, Math.min(this.at - MOST_MARKED / 2, this.found.length - MOST_MARKED));
    const near = this.found.slice(from, from + MOST_MARKED).map((_, index) => this.rangeAt(from + index));
    highlight("log-found", near);
    highlight("log-chosen", this.at >= 0 ? [this.rangeAt(this.at)] : []);
  }

  rangeAt(index) {
    const { node, start } = this.found[index];
    return rangeIn(node, start, start + this.input.value.length);
  }

  end() {
    clearTimeout(this.timer);
    highlight("log-found", []);
    highlight("log-chosen", []);
  }
}

/** Browsers without highlights still scroll to what was found. */
export function highlight(name, ranges) {
  if (!("highlights" in CSS)) return;
  if (ranges.length) CSS.highlights.set(name, new Highlight(...ranges));
  else CSS.highlights.delete(name);
}
