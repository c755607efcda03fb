// File browser of a folder (templates/vfolders/folder.html, [data-browser]): a list of any length of which only the visible rows
// are in the page, with keys, selection, renaming in place, dragging, a menu and undo. It works through REST; without this
// file the page shows a table of the server.
import { EntryList } from "./browser_list.js";
import { attach } from "./features.js";
import { renewToken, tokenHeaders } from "./requests.js";
import { format, gettext, ngettext } from "./words.js";

const CLIPBOARD = "berth-files";
const UNDO_MS = 10_000;

class Browser {
  constructor(root) {
    this.root = root;
    this.data = root.dataset;
    this.path = this.data.path;
    this.canWrite = this.data.canWrite !== undefined;
    this.status = root.querySelector("[data-browser-status]");
    this.menu = root.querySelector("[data-browser-menu]");
    this.list = new EntryList(root.querySelector("[data-browser-list]"), {
      load: (after, sort) => this.page(after, sort),
      urlOf: (entry) => this.urlOf(entry),
      onKey: (event) => this.key(event),
      onMenu: (place) => this.openMenu(place),
      onSelect: (count) => this.selected(count),
      onDrop: (entry, isCopy) => this.place([...this.dragged], this.pathOf(entry), isCopy ? "copy" : "move"),
      onDrag: (names) => (this.dragged = names.map((name) => this.join(name))),
      canWrite: this.canWrite,
    });
    root.querySelector("[data-browser-fallback]")?.remove();
    root.querySelector("[data-browser-tools]").hidden = false;
    this.list.start(new URLSearchParams(location.search));
    this.refresh = () => this.words || this.list.reload();
    document.body.addEventListener("berth:folder-changed", this.refresh);
    root.addEventListener("click", (event) => this.click(event));
    root.querySelector("[data-browser-search]").addEventListener("submit", (event) => this.search(event));
    for (const form of root.querySelectorAll("[data-browser-new]")) form.addEventListener("submit", (event) => this.create(event));
    this.closeMenu = (event) => this.menu.hidden || this.menu.contains(event.target) || this.hideMenu();
    document.addEventListener("click", this.closeMenu, true);
    this.menu.addEventListener("keydown", (event) => this.menuKey(event));
    this.showClipboard();
  }

  // Addresses

  join(name) {
    return this.path ? `${this.path}/${name}` : name;
  }

  pathOf(entry) {
    return entry.path ?? this.join(entry.name);
  }

  urlOf(entry) {
    if (!entry.is_addressable) return "";
    const path = encodeURIComponent(this.pathOf(entry));
    if (entry.kind === "directory") return `${this.data.pageUrl}?path=${path}`;
    return entry.kind === "file" ? `${this.data.fileUrl}?path=${path}` : "";
  }

  page(after, { sort, descending }) {
    const asked = new URLSearchParams({ path: this.path, sort, after, limit: "2000", ...(descending ? { descending: "true" } : {}) });
    return this.get(`${this.data.entriesUrl}?${asked}`);
  }

  // Requests

  async get(url) {
    return this.read(await fetch(url));
  }

  async send(method, url, body) {
    const headers = { ...tokenHeaders(), ...(body ? { "Content-Type": "application/json" } : {}) };
    return this.read(await fetch(url, { method, headers, body: body && JSON.stringify(body) }));
  }

  async read(answer) {
    const body = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
    if (answer.ok) return body;
    renewToken({ getResponseHeader: (name) => answer.headers.get(name) });
    const sentence = [body.message, body.hint].filter(Boolean).join(" ");
    throw Object.assign(new Error(sentence || format(gettext("The portal answered with status {status}."), { status: answer.status })), { body });
  }

  /** Runs what a person asked for; says what failed at the top of the list. */
  async doing(act) {
    try {
      return await act();
    } catch (error) {
      this.say(error instanceof TypeError ? gettext("The portal cannot be reached. Nothing was changed; try again in a moment.") : error.message, { tone: "bad" });
      return undefined;
    }
  }

  // What is said

  say(text, { tone = "", actions = [], progress = null } = {}) {
    clearTimeout(this.sayTimer);
    this.status.replaceChildren();
    this.status.className = `browser-status ${tone && `is-${tone}`}`;
    if (!text) return;
    this.status.append(Object.assign(document.createElement("span"), { textContent: text }));
    if (progress !== null) {
      const bar = Object.assign(document.createElement("progress"), { max: 1 });
      if (progress > 0) bar.value = progress;
      bar.setAttribute("aria-label", text);
      this.status.append(bar);
    }
    for (const [label, act] of actions) {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "btn btn-sm", textContent: label });
      button.addEventListener("click", act);
      this.status.append(button);
    }
  }

  sayFor(ms, text, more) {
    this.say(text, more);
    this.sayTimer = setTimeout(() => this.say(""), ms);
  }

  selected(count) {
    for (const button of this.root.querySelectorAll("[data-needs-selection]")) button.disabled = !count;
    this.root.querySelector("[data-browser-count]").textContent = count ? format(ngettext("{count} selected", "{count} selected", count), { count }) : "";
  }

  // Work

  async place(paths, to, kind, more = {}) {
    if (!paths.length) return;
    const body = { kind, paths, to, ...more };
    const url = more.fromUrl ?? this.data.operationsUrl;
    delete body.fromUrl;
    try {
      await this.follow(await this.send("POST", url, body));
    } catch (error) {
      if (error.body?.code !== "exists") {
        this.say(error.message, { tone: "bad" });
        return;
      }
      const again = (taken) => () => this.place(paths, to, kind, { ...more, taken });
      this.say(error.message, {
        tone: "warn",
        actions: [
          [gettext("Keep both"), again("keep_both")],
          [gettext("Replace"), again("replace")],
          [gettext("Skip"), again("skip")],
          [gettext("Cancel"), () => this.say("")],
        ],
      });
    }
  }

  async follow(operation) {
    const url = this.data.operationUrl.replace("00000000-0000-0000-0000-000000000000", operation.id);
    let current = operation;
    while (["waiting", "running"].includes(current.state)) {
      const share = current.bytes_total ? current.bytes_done / current.bytes_total : 0;
      const count = current.entries_done;
      this.say(format(ngettext("Working… {count} entry done", "Working… {count} entries done", count), { count }), {
        progress: share,
        actions: [[gettext("Cancel"), () => this.doing(() => this.send("DELETE", url))]],
      });
      await new Promise((resolve) => setTimeout(resolve, 700));
      current = await this.get(url);
    }
    const left = current.left_out.length;
    if (current.state === "failed") this.say(current.error, { tone: "bad" });
    else if (left) this.say(format(ngettext("Done. One link or device was left out: {names}", "Done. {count} links or devices were left out: {names}", left), { count: left, names: current.left_out.slice(0, 5).join(", ") }), { tone: "warn" });
    else this.sayFor(4000, current.state === "cancelled" ? gettext("Cancelled.") : gettext("Done."), { tone: "good" });
    await this.list.reload();
  }

  chosen() {
    return this.list.chosen().filter((entry) => entry.is_addressable);
  }

  chosenPaths() {
    return this.chosen().map((entry) => this.pathOf(entry));
  }

  delete() {
    const paths = this.chosenPaths();
    if (!paths.length || !this.canWrite) return;
    this.doing(async () => {
      const { batch } = await this.send("POST", this.data.trashUrl, { paths });
      await this.again();
      const count = paths.length;
      const undo = () =>
        this.doing(async () => {
          await this.send("POST", `${this.data.trashUrl}${batch}/restore/`);
          this.sayFor(4000, gettext("It is back."), { tone: "good" });
          await this.again();
        });
      this.sayFor(UNDO_MS, format(ngettext("{count} entry is in the trash of the folder for 7 days.", "{count} entries are in the trash of the folder for 7 days.", count), { count }), { actions: [[gettext("Undo"), undo]] });
    });
  }

  again() {
    return this.words ? this.search() : this.list.reload();
  }

  rename() {
    const [entry] = this.chosen();
    if (!entry || !this.canWrite || this.words) return;
    this.list.edit(entry, (name) => {
      if (name && name !== entry.name) this.place([this.pathOf(entry)], this.path, "move", { name });
    });
  }

  remember(kind) {
    const paths = this.chosenPaths();
    if (!paths.length) return;
    sessionStorage.setItem(CLIPBOARD, JSON.stringify({ kind, paths, folder: this.data.folder, url: this.data.operationsUrl }));
    this.showClipboard();
    const words = kind === "copy" ? ngettext("{count} entry to copy. Open a directory and choose “Paste here”.", "{count} entries to copy. Open a directory and choose “Paste here”.", paths.length) : ngettext("{count} entry to move. Open a directory and choose “Paste here”.", "{count} entries to move. Open a directory and choose “Paste here”.", paths.length);
    this.sayFor(6000, format(words, { count: paths.length }));
  }

  clipboard() {
    try {
      return JSON.parse(sessionStorage.getItem(CLIPBOARD));
    } catch {
      return null;
    }
  }

  showClipboard() {
    const button = this.root.querySelector("[data-act=paste]");
    if (button) button.hidden = !this.clipboard();
  }

  async paste() {
    const held = this.clipboard();
    if (!held || !this.canWrite) return;
    sessionStorage.removeItem(CLIPBOARD);
    this.showClipboard();
    const more = { fromUrl: held.url, ...(held.folder === this.data.folder ? {} : { to_folder: this.data.folder }) };
    if (held.kind === "copy" && held.folder === this.data.folder && held.paths.every((path) => path.slice(0, -path.split("/").pop().length - 1) === this.path)) more.taken = "keep_both";
    await this.place(held.paths, this.path, held.kind, more);
  }

  download() {
    const entries = this.chosen();
    if (entries.length === 1 && entries[0].kind === "file") {
      location.href = `${this.data.downloadUrl}?path=${encodeURIComponent(this.pathOf(entries[0]))}`;
      return;
    }
    const asked = new URLSearchParams(entries.map((entry) => ["path", this.pathOf(entry)]));
    if (`${asked}`.length > 6000) this.say(gettext("Too many names for one download. Put them into a directory, and download that."), { tone: "bad" });
    else location.href = `${this.data.zipUrl}?${asked}`;
  }

  unpack() {
    const [entry] = this.chosen();
    if (!entry) return;
    const name = entry.name.replace(/\.(zip|tar|tgz|tar\.gz|tar\.bz2)$/i, "") || `${entry.name} 2`;
    this.place([this.pathOf(entry)], this.path, "unpack", { name });
  }

  create(event) {
    event.preventDefault();
    const form = event.target;
    const name = form.elements.name.value;
    this.doing(async () => {
      if (form.dataset.browserNew === "directory") await this.send("POST", this.data.directoriesUrl, { path: this.join(name) });
      else await this.send("PUT", `${this.data.textUrl}?path=${encodeURIComponent(this.join(name))}`, { text: "" });
      form.reset();
      form.closest("details").open = false;
      await this.list.reload();
      this.list.select(name);
    });
  }

  // Search

  async search(event) {
    event?.preventDefault();
    this.searching?.abort();
    const words = this.root.querySelector("[data-browser-search] input").value.trim();
    this.words = words;
    if (!words) {
      this.say("");
      this.list.root.classList.remove("is-search");
      this.list.start(new URLSearchParams(location.search));
      return;
    }
    const ends = (this.searching = new AbortController());
    const stop = [gettext("Stop"), () => ends.abort()];
    this.list.root.classList.add("is-search");
    this.list.show([]);
    this.say(gettext("Searching…"), { actions: [stop], progress: 0 });
    await this.doing(async () => {
      const asked = new URLSearchParams({ q: words, path: this.path });
      let last = {};
      try {
        const answer = await fetch(`${this.data.searchUrl}?${asked}`, { signal: ends.signal });
        if (!answer.ok) return this.read(answer);
        for await (const line of linesOf(answer.body)) {
          if (line.path === undefined) last = line;
          else this.list.add(line);
        }
      } catch (error) {
        if (error.name !== "AbortError") throw error;
      }
      const count = this.list.entries.length;
      const found = format(ngettext("{count} found.", "{count} found.", count), { count });
      if (last.error) this.say(last.error, { tone: "bad" });
      else this.say(last.is_complete ? found : `${found} ${gettext("Not everything was searched.")}`);
      return undefined;
    });
  }

  // Buttons, keys, menu

  click(event) {
    const act = event.target.closest("[data-act]")?.dataset.act;
    if (!act) return;
    this.hideMenu();
    this.act(act);
  }

  act(name) {
    const acts = {
      delete: () => this.delete(), rename: () => this.rename(), copy: () => this.remember("copy"), cut: () => this.remember("move"),
      paste: () => this.paste(), download: () => this.download(), unpack: () => this.unpack(), open: () => this.open(),
    };
    acts[name]?.();
  }

  open() {
    const [entry] = this.list.chosen();
    const url = entry && this.urlOf(entry);
    if (url) location.href = url;
  }

  key(event) {
    const command = event.ctrlKey || event.metaKey;
    const act = { Enter: "open", F2: "rename", Delete: "delete" }[event.key] ?? (command && { c: "copy", x: "cut", v: "paste" }[event.key]);
    if (!act || (act === "open" && command)) return;
    event.preventDefault();
    this.act(act);
  }

  openMenu({ x, y }) {
    const entries = this.chosen();
    const isArchive = entries.length === 1 && /\.(zip|tar|tgz|tar\.gz|tar\.bz2)$/i.test(entries[0].name);
    const shown = { open: entries.length === 1, rename: entries.length === 1 && !this.words, unpack: isArchive, download: entries.length > 0 };
    for (const item of this.menu.querySelectorAll("[data-act]")) item.hidden = shown[item.dataset.act] === false;
    this.menu.hidden = false;
    const box = this.menu.getBoundingClientRect();
    this.menu.style.left = `${Math.max(4, Math.min(x, innerWidth - box.width - 8))}px`;
    this.menu.style.top = `${Math.max(4, Math.min(y, innerHeight - box.height - 8))}px`;
    this.menu.querySelector("[data-act]:not([hidden])")?.focus();
  }

  hideMenu() {
    if (this.menu.hidden) return;
    this.menu.hidden = true;
    this.list.focus();
  }

  menuKey(event) {
    const items = [...this.menu.querySelectorAll("[data-act]:not([hidden])")];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") this.hideMenu();
    else if (to !== undefined) items.at(to % items.length).focus();
    else return;
    event.preventDefault();
  }

  end() {
    document.body.removeEventListener("berth:folder-changed", this.refresh);
    document.removeEventListener("click", this.closeMenu, true);
    this.searching?.abort();
    this.list.end();
  }
}

/** The objects of a stream of lines of JSON. */
async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { done, value } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) yield JSON.parse(line);
    if (done) return;
  }
}

attach("[data-browser]", (root) => new Browser(root));
