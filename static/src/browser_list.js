// List of entries as a grid: all are known by number, the visible ones are in the page. Pages are loaded as the list is
// scrolled to them.
import { format, gettext, ngettext } from "./words.js";

const ROW = 40;
const SPARE = 12;
const ICONS = { directory: "folder", file: "file", link: "link", other: "plug-connected" };
const NOTES = { link: () => gettext("A link; not followed here"), other: () => gettext("A device, pipe or socket") };

export class EntryList {
  constructor(root, hooks) {
    Object.assign(this, { root, hooks });
    this.body = root.querySelector("[data-rows]");
    this.scroller = root.querySelector("[data-scroller]");
    this.icon = root.querySelector("template").content.firstElementChild;
    this.selection = new Set();
    this.entries = [];
    this.active = 0;
    this.anchor = 0;
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.scroller);
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("focusin", (event) => this.follow(event));
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("contextmenu", (event) => this.contextMenu(event));
    if (hooks.canWrite) for (const kind of ["dragstart", "dragover", "dragleave", "drop"]) this.body.addEventListener(kind, (event) => this[kind](event));
    for (const head of root.querySelectorAll("[data-sort]")) head.addEventListener("click", () => this.sortBy(head.dataset.sort));
  }

  /** Load the directory in the order of the address. */
  start(query) {
    this.sort = { sort: query.get("sort") ?? "name", descending: query.get("descending") === "true" };
    return this.reload();
  }

  sortBy(sort) {
    const descending = this.sort.sort === sort && !this.sort.descending;
    const url = new URL(location.href);
    url.searchParams.set("sort", sort);
    if (descending) url.searchParams.set("descending", "true");
    else url.searchParams.delete("descending");
    history.replaceState(history.state, "", url);
    this.start(url.searchParams);
  }

  async reload() {
    const wanted = Math.max(this.entries.length, 1);
    const ticket = (this.ticket = {});
    const entries = [];
    let page;
    try {
      do {
        page = await this.hooks.load(page?.after ?? "", this.sort);
        if (this.ticket !== ticket) return;
        entries.push(...page.entries);
      } while (page.after && entries.length < wanted);
    } catch (error) {
      this.tell(error.message);
      return;
    }
    this.after = page.after;
    this.total = page.total;
    this.show(entries, true);
    for (const head of this.root.querySelectorAll("[data-sort]")) {
      const isBy = head.dataset.sort === this.sort.sort;
      head.closest("[role=columnheader]").setAttribute("aria-sort", isBy ? (this.sort.descending ? "descending" : "ascending") : "none");
    }
  }

  show(entries, isDirectory = false) {
    if (!isDirectory) {
      this.ticket = null;
      this.after = null;
      this.total = entries.length;
    }
    const known = new Set(entries.map(keyOf));
    this.selection = new Set([...this.selection].filter((key) => known.has(key)));
    this.entries = entries;
    this.active = Math.min(this.active, Math.max(0, entries.length - 1));
    this.changed();
  }

  add(entry) {
    this.entries.push(entry);
    this.total = this.entries.length;
    this.changed();
  }

  changed() {
    this.root.querySelector("[data-grid]").setAttribute("aria-rowcount", this.total + 1);
    this.tell(this.total ? format(ngettext("{count} entry", "{count} entries", this.total), { count: this.total.toLocaleString(document.documentElement.lang) }) : "");
    this.root.querySelector("[data-empty]").hidden = this.total > 0 || this.root.classList.contains("is-search");
    this.hooks.onSelect(this.selection.size);
    this.draw();
  }

  tell(text) {
    this.root.querySelector("[data-total]").textContent = text;
  }

  /** Load the next page; there is one request at a time. */
  more() {
    this.loading ??= this.loadNext();
    return this.loading;
  }

  async loadNext() {
    const { ticket, after } = this;
    let page = null;
    try {
      page = await this.hooks.load(after, this.sort);
    } catch (error) {
      this.after = null;
      this.tell(error.message);
    }
    this.loading = null;
    if (!page || this.ticket !== ticket) return;
    this.entries.push(...page.entries);
    this.after = page.after;
    this.total = Math.max(page.total, this.entries.length);
    this.draw();
  }

  /** Go to the last entry of all. */
  async toEnd(isRange) {
    while (this.after) await this.more();
    this.goTo(this.entries.length - 1, { isRange });
    this.focus();
  }

  // Rows

  draw() {
    this.body.style.height = `${this.total * ROW}px`;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - SPARE);
    const last = Math.min(this.entries.length, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / ROW) + SPARE);
    const had = this.body.contains(document.activeElement) && !this.body.querySelector("input[type=text]");
    const editing = this.body.querySelector("[data-editing]");
    if (editing) return;
    const rows = [];
    for (let at = first; at < last; at += 1) rows.push(this.row(at));
    this.body.replaceChildren(...rows);
    if (had) this.focus();
    if (this.after && last + SPARE >= this.entries.length) this.more();
  }

  row(at) {
    const entry = this.entries[at];
    const isSelected = this.selection.has(keyOf(entry));
    const row = element("div", "browser-row", { role: "row", "aria-rowindex": at + 2, "aria-selected": isSelected, "data-at": at, tabindex: at === this.active ? 0 : -1 });
    row.style.transform = `translateY(${at * ROW}px)`;
    if (this.hooks.canWrite && entry.is_addressable) row.draggable = true;
    const name = element("div", "browser-name", { role: "gridcell" });
    const icon = this.icon.cloneNode(true);
    const use = icon.querySelector("use");
    use.setAttribute("href", use.getAttribute("href").replace(/#.*/, `#${ICONS[entry.kind]}`));
    const url = this.hooks.urlOf(entry);
    const label = element(url ? "a" : "span", "", { dir: "auto", ...(url ? { href: url, tabindex: -1, draggable: false } : {}) });
    label.textContent = visible(entry.path ?? entry.name);
    name.append(icon, label);
    const note = entry.is_addressable ? NOTES[entry.kind]?.() : gettext("Not UTF-8; rename it in a session");
    if (note) name.append(Object.assign(element("small", "text-secondary"), { textContent: note }));
    const size = element("div", "browser-size number", { role: "gridcell" });
    size.textContent = entry.kind === "file" ? bytes(entry.size_bytes) : "—";
    const time = element("div", "browser-time number", { role: "gridcell" });
    time.textContent = when(entry.modified_at);
    const tick = element("div", "browser-tick", { role: "gridcell" });
    const box = element("input", "form-check-input", { type: "checkbox", tabindex: -1, "aria-label": format(gettext("Select {name}"), { name: entry.name }) });
    box.checked = isSelected;
    tick.append(box);
    const menu = element("div", "browser-more", { role: "gridcell" });
    const button = element("button", "btn btn-icon btn-sm", { type: "button", tabindex: -1, "data-row-menu": "", "aria-haspopup": "menu", "aria-label": format(gettext("Actions for {name}"), { name: entry.name }) });
    const dots = this.icon.cloneNode(true);
    dots.querySelector("use").setAttribute("href", use.getAttribute("href").replace(/#.*/, "#dots"));
    button.append(dots);
    menu.append(button);
    row.append(tick, name, size, time, menu);
    return row;
  }

  /** The row that got the focus is the active one. */
  follow(event) {
    const row = event.target.closest("[data-at]");
    if (!row || event.target !== row) return;
    this.body.querySelector('[tabindex="0"][data-at]')?.setAttribute("tabindex", -1);
    row.tabIndex = 0;
    this.active = Number(row.dataset.at);
  }

  rowOf(at) {
    return this.body.querySelector(`[data-at="${at}"]`);
  }

  focus() {
    this.rowOf(this.active)?.focus({ preventScroll: true });
  }

  // Selection

  chosen() {
    const picked = this.entries.filter((entry) => this.selection.has(keyOf(entry)));
    return picked.length || !this.entries.length || !this.body.contains(document.activeElement) ? picked : [this.entries[this.active]];
  }

  select(name) {
    const at = this.entries.findIndex((entry) => entry.name === name);
    if (at < 0) return;
    this.selection = new Set([keyOf(this.entries[at])]);
    this.goTo(at);
    this.focus();
  }

  goTo(at, { isRange = false, keeps = false } = {}) {
    const to = Math.max(0, Math.min(at, this.entries.length - 1));
    this.active = to;
    if (isRange) {
      const [low, high] = [Math.min(this.anchor, to), Math.max(this.anchor, to)];
      this.selection = new Set(this.entries.slice(low, high + 1).map(keyOf));
    } else {
      this.anchor = to;
      if (!keeps) this.selection.clear();
    }
    const top = to * ROW;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.scroller.scrollTop = top + ROW - clientHeight;
    this.hooks.onSelect(this.selection.size);
    this.draw();
  }

  toggle(at) {
    const key = keyOf(this.entries[at]);
    if (!this.selection.delete(key)) this.selection.add(key);
    this.anchor = this.active = at;
    this.hooks.onSelect(this.selection.size);
    this.draw();
  }

  click(event) {
    const at = Number(event.target.closest("[data-at]")?.dataset.at ?? -1);
    if (at < 0 || event.target.closest("[data-editing]")) return;
    const box = event.target.closest("[data-row-menu]")?.getBoundingClientRect();
    if (box) {
      if (!this.selection.has(keyOf(this.entries[at]))) this.goTo(at);
      this.selection.add(keyOf(this.entries[at]));
      this.draw();
      this.focus();
      this.hooks.onMenu({ x: box.right, y: box.bottom });
      event.stopPropagation();
      return;
    }
    if (event.shiftKey) event.preventDefault();
    else if (event.target.closest("a") && !event.ctrlKey && !event.metaKey) return;
    if (event.shiftKey) this.goTo(at, { isRange: true });
    else if (event.target.matches("input[type=checkbox]") || event.ctrlKey || event.metaKey) this.toggle(at);
    else {
      this.goTo(at);
      this.selection.add(keyOf(this.entries[at]));
      this.hooks.onSelect(1);
      this.draw();
    }
    this.focus();
  }

  contextMenu(event) {
    const at = Number(event.target.closest("[data-at]")?.dataset.at ?? -1);
    if (at < 0) return;
    event.preventDefault();
    if (!this.selection.has(keyOf(this.entries[at]))) this.goTo(at);
    this.selection.add(keyOf(this.entries[at]));
    this.hooks.onSelect(this.selection.size);
    this.draw();
    this.focus();
    this.hooks.onMenu({ x: event.clientX, y: event.clientY });
  }

  key(event) {
    if (event.target.matches("input[type=text]")) return;
    const rows = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 1);
    const to = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + rows, PageUp: this.active - rows, Home: 0 }[event.key];
    if (event.key === "End") this.toEnd(event.shiftKey);
    else if (to !== undefined) this.goTo(to, { isRange: event.shiftKey, keeps: event.ctrlKey });
    else if (event.key === " ") this.toggle(this.active);
    else if (event.key === "Escape") this.goTo(this.active);
    else if (event.key === "a" && (event.ctrlKey || event.metaKey)) {
      this.selection = new Set(this.entries.map(keyOf));
      this.hooks.onSelect(this.selection.size);
      this.draw();
    } else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
      const box = (this.rowOf(this.active) ?? this.body).getBoundingClientRect();
      if (!this.entries.length) return;
      this.selection.add(keyOf(this.entries[this.active]));
      this.hooks.onMenu({ x: box.left + 40, y: box.bottom });
    } else {
      this.hooks.onKey(event);
      return;
    }
    event.preventDefault();
    this.focus();
  }

  /** Lets a person type a new name in the row; `done` gets it. */
  edit(entry, done) {
    const row = this.rowOf(this.entries.indexOf(entry));
    if (!row) return;
    row.dataset.editing = "";
    row.draggable = false;
    const field = element("input", "form-control form-control-sm", { type: "text", "aria-label": format(gettext("New name of {name}"), { name: entry.name }), maxlength: 255 });
    field.value = entry.name;
    row.querySelector(".browser-name").replaceChildren(field);
    const end = (name) => {
      if (!field.isConnected || row.dataset.editing === undefined) return;
      delete row.dataset.editing;
      this.draw();
      this.focus();
      if (name !== null) done(name);
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") end(field.value);
      else if (event.key === "Escape") end(null);
      event.stopPropagation();
    });
    field.addEventListener("blur", () => end(null));
    field.focus();
    const dot = entry.kind === "file" ? entry.name.lastIndexOf(".") : -1;
    field.setSelectionRange(0, dot > 0 ? dot : entry.name.length);
  }

  // Dragging

  dragstart(event) {
    const row = event.target.closest("[data-at]");
    if (!row) return;
    const entry = this.entries[Number(row.dataset.at)];
    if (!this.selection.has(keyOf(entry))) this.selection = new Set([keyOf(entry)]);
    const names = this.entries.filter((each) => this.selection.has(keyOf(each))).map((each) => each.name);
    event.dataTransfer.setData("application/x-berth-files", "");
    event.dataTransfer.effectAllowed = "copyMove";
    this.hooks.onDrag(names);
    this.isDragging = true;
  }

  directoryAt(event) {
    const row = event.target.closest("[data-at]");
    const entry = row && this.entries[Number(row.dataset.at)];
    const isTarget = event.dataTransfer.types.includes("application/x-berth-files") && entry?.kind === "directory" && entry.is_addressable && !this.selection.has(keyOf(entry));
    return isTarget ? { row, entry } : null;
  }

  dragover(event) {
    const target = this.directoryAt(event);
    if (!target) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = event.ctrlKey || event.altKey ? "copy" : "move";
    target.row.classList.add("is-over");
  }

  dragleave(event) {
    event.target.closest?.("[data-at]")?.classList.remove("is-over");
  }

  drop(event) {
    const target = this.directoryAt(event);
    if (!target) return;
    event.preventDefault();
    event.stopPropagation();
    target.row.classList.remove("is-over");
    this.hooks.onDrop(target.entry, event.ctrlKey || event.altKey);
  }

  end() {
    this.resized.disconnect();
  }
}

const keyOf = (entry) => entry.path ?? entry.name;

function element(tag, className, attributes = {}) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** Control characters as their pictures, so that a name is one line. */
const visible = (name) => name.replace(/[\u0000-\u001f]/g, (sign) => String.fromCharCode(0x2400 + sign.charCodeAt(0))).replace(/[\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, "\u2423");

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let [value, unit] = [count, 0];
  for (; value >= 1024 && unit < units.length - 1; unit += 1) value /= 1024;
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

let clock;
function when(text) {
  clock ??= new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
  return clock.format(new Date(text));
}
