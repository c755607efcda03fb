// Uploads: files and whole directories that are chosen or dropped on a form[data-upload-url], which is the address of the
// directory in REST. Several at once, with progress; each can be paused, resumed, cancelled and tried again. What a reload
// interrupted is offered again: the browser forgets the file, so the person chooses it once more and the rest is sent.
// Without this file the form posts the files as an ordinary form does.
import { attach } from "./features.js";
import { chosenFiles, droppedFiles } from "./upload_sources.js";
import { BundleTransfer, FileTransfer, inBundles, SMALL_BYTES } from "./upload_transfers.js";
import { format, gettext, ngettext } from "./words.js";

const AT_ONCE = 3;
const FEW_FILES = 4; // that many small files are shown one by one
const SHOWN_DONE = 20;
const SKIP = "skip";
const ASK = "ask";

class UploadForm {
  constructor(form) {
    this.form = form;
    const [, base, directory] = form.dataset.uploadUrl.match(/^(.*\/)files\/(.*)$/);
    this.uploadsUrl = `${base}uploads/`;
    this.bundlesUrl = `${base}bundles/`;
    this.directory = directory.split("/").map(decodeURIComponent).join("/");
    this.list = form.querySelector("[data-upload-list]");
    this.rows = new Set();
    this.waiting = [];
    this.running = 0;
    this.begun = []; // uploads that the portal has not received whole, of an earlier visit
    this.doneRows = [];
    this.build();
    form.addEventListener("dragover", (event) => this.over(event, true));
    form.addEventListener("dragleave", (event) => this.over(event, false));
    form.addEventListener("drop", (event) => this.drop(event));
    this.warn = (event) => (this.running || this.waiting.length) && event.preventDefault();
    addEventListener("beforeunload", this.warn);
    this.offerBegun();
  }

  build() {
    this.form.querySelector('[type="submit"]')?.setAttribute("hidden", "");
    const input = this.form.querySelector('input[type="file"]');
    input.addEventListener("change", () => this.acceptFrom(input));
    const folder = Object.assign(element("input"), { type: "file", webkitdirectory: true, hidden: true, tabIndex: -1 });
    folder.addEventListener("change", () => this.acceptFrom(folder));
    const choose = button(gettext("Choose a directory"), () => folder.click());
    this.choice = element("select", "form-select");
    for (const [value, words] of [
      [ASK, gettext("ask")],
      ["replace", gettext("replace the file")],
      ["keep_both", gettext("keep both")],
      [SKIP, gettext("skip the file")],
    ]) {
      this.choice.append(new Option(words, value));
    }
    this.choice.addEventListener("change", () => this.chosen());
    const label = element("label", "upload-choice", gettext("If a name is taken:"));
    label.append(this.choice);
    this.total = element("span", "text-secondary number");
    this.total.setAttribute("role", "status");
    const tools = element("div", "upload-tools");
    tools.append(choose, folder, label, this.total);
    this.list.before(tools);
  }

  over(event, isOver) {
    event.preventDefault();
    this.form.classList.toggle("is-over", isOver);
  }

  async drop(event) {
    this.over(event, false);
    this.accept(await droppedFiles(event.dataTransfer));
  }

  acceptFrom(input) {
    this.accept(chosenFiles(input));
    input.value = "";
  }

  accept(found) {
    const items = found.map(({ file, path }) => ({ file, path: `${this.directory}${path}`, name: path }));
    const known = new Map(items.map((item) => [item, this.takeBegun(item)]));
    const small = new Set(items.filter((item) => item.file.size <= SMALL_BYTES && !known.get(item)));
    const isMany = small.size > FEW_FILES;
    for (const item of items) if (!isMany || !small.has(item)) this.addFile(item, { known: known.get(item) });
    if (isMany) for (const group of inBundles([...small])) this.addBundle(group);
    this.next();
  }

  addFile(item, { known, choice, row = new Row(this, item.name) } = {}) {
    row.begin((on) => new FileTransfer({ url: this.uploadsUrl, item, known, choice: choice ?? this.wanted(), on }));
    row.item = item;
    this.enqueue(row);
  }

  addBundle(items) {
    const words = ngettext("{count} small file", "{count} small files", items.length);
    const row = new Row(this, format(words, { count: items.length }));
    const onFiles = (results) => results.forEach((result) => result.error && this.refused(result));
    row.begin((on) => new BundleTransfer({ url: this.bundlesUrl, items, choice: this.wanted(), on, onFiles }));
    this.enqueue(row);
  }

  refused({ item, error }) {
    const row = new Row(this, item.name);
    row.item = item;
    row.fail({ code: error.code, text: [error.message, error.hint].filter(Boolean).join(" ") });
  }

  wanted() {
    return [ASK, SKIP].includes(this.choice.value) ? "refuse" : this.choice.value;
  }

  /** A choice for taken names decides for the files that wait for one, too. */
  chosen() {
    for (const row of this.rows) if (row.isAsking) this.decide(row, this.choice.value);
  }

  decide(row, choice) {
    if (choice === ASK) return;
    if (choice === SKIP) row.finish(gettext("skipped"));
    else this.addFile(row.item, { choice, row });
    this.next();
  }

  enqueue(row) {
    row.say(gettext("waiting"));
    this.waiting.push(row);
  }

  next() {
    while (this.running < AT_ONCE && this.waiting.length) {
      const row = this.waiting.shift();
      if (!row.isWaiting) continue;
      this.running += 1;
      row.start();
    }
    this.count();
  }

  /** A row has ended, well or not, or is paused. */
  released() {
    this.running -= 1;
    if (!this.running && !this.waiting.length) document.body.dispatchEvent(new CustomEvent("berth:folder-changed"));
    this.next();
  }

  keepFew(row) {
    this.doneRows.push(row);
    if (this.doneRows.length > SHOWN_DONE) this.doneRows.shift().remove();
  }

  count() {
    const rows = [...this.rows];
    const bytes = (of) => rows.reduce((sum, row) => sum + of(row), 0);
    const [sent, all] = [bytes((row) => row.sent), bytes((row) => row.bytes)];
    const failed = rows.filter((row) => row.isFailed).length;
    const words = [];
    if (all) words.push(format(gettext("{sent} of {all} MB"), { sent: (sent / 1e6).toFixed(0), all: (all / 1e6).toFixed(0) }));
    if (failed) words.push(format(ngettext("{count} not uploaded", "{count} not uploaded", failed), { count: failed }));
    this.total.textContent = words.join(" · ");
  }

  async offerBegun() {
    const answer = await fetch(this.uploadsUrl, { headers: { Accept: "application/json" } }).catch(() => null);
    if (!answer?.ok) return;
    for (const upload of await answer.json()) {
      if (!upload.path.startsWith(this.directory) || upload.length_bytes === null) continue;
      const row = new Row(this, upload.path.slice(this.directory.length));
      row.offer(upload, this.uploadsUrl);
      this.begun.push({ upload, row });
    }
  }

  /** The begun upload of this file, if the portal has one: same place, size and time of change. */
  takeBegun({ file, path }) {
    const index = this.begun.findIndex(
      ({ upload }) => upload.path === path && upload.length_bytes === file.size && upload.metadata.includes(`modified ${btoa(String(file.lastModified))}`),
    );
    if (index < 0) return undefined;
    const [{ upload, row }] = this.begun.splice(index, 1);
    row.remove();
    return upload;
  }

  end() {
    removeEventListener("beforeunload", this.warn);
    for (const row of this.rows) row.transfer?.pause();
  }
}

/** One line of the list, and what it sends. */
class Row {
  constructor(form, name) {
    this.form = form;
    this.name = name;
    this.sent = this.bytes = 0;
    this.state = "waiting";
    this.line = element("li");
    const label = element("span", "upload-name", name);
    label.title = name;
    this.words = element("span", "text-secondary number");
    this.bar = Object.assign(element("progress"), { max: 1, value: 0 });
    this.bar.setAttribute("aria-label", format(gettext("Upload of {file}"), { file: name }));
    this.why = element("span", "is-bad");
    this.actions = element("span", "upload-actions");
    this.line.append(label, this.words, this.bar, this.why, this.actions);
    form.list.append(this.line);
    form.rows.add(this);
  }

  get isWaiting() {
    return this.state === "waiting";
  }

  get isFailed() {
    return this.state === "failed";
  }

  get isAsking() {
    return this.isFailed && this.code === "exists" && Boolean(this.item);
  }

  begin(make) {
    this.transfer = make({
      progress: (sent) => this.progress(sent),
      done: () => this.state === "running" && (this.finish(gettext("done")), this.form.released()),
      fail: (refusal) => this.state === "running" && (this.fail(refusal), this.form.released()),
    });
    this.bytes = this.transfer.bytes;
    this.become("waiting");
  }

  start() {
    this.become("running");
    this.say(gettext("sending…"));
    this.transfer.start();
  }

  progress(sent) {
    this.sent = sent;
    this.bar.value = this.bytes ? sent / this.bytes : 1;
    this.say(sent >= this.bytes ? gettext("storing…") : `${Math.floor(this.bar.value * 100)} %`);
    this.form.count();
  }

  pause() {
    const wasRunning = this.state === "running";
    this.become("paused");
    this.transfer.pause();
    this.say(gettext("paused"));
    if (wasRunning) this.form.released();
  }

  resume() {
    this.become("waiting");
    this.form.enqueue(this);
    this.form.next();
  }

  cancel() {
    const wasRunning = this.state === "running";
    this.become("gone");
    this.transfer?.cancel();
    this.remove();
    if (wasRunning) this.form.released();
    else this.form.count();
  }

  finish(words) {
    this.become("done");
    this.sent = this.bytes;
    this.bar.remove();
    this.say(words);
    this.form.keepFew(this);
  }

  fail({ code, text }) {
    this.code = code;
    this.become("failed");
    const { value } = this.form.choice;
    if (this.isAsking && value === SKIP) {
      this.finish(gettext("skipped"));
      return;
    }
    this.say(this.isAsking ? gettext("name taken") : gettext("not uploaded"));
    this.why.textContent = text;
    this.form.count();
  }

  /** Shows an upload of an earlier visit. */
  offer(upload, url) {
    this.become("offered");
    this.bytes = upload.length_bytes;
    this.sent = upload.offset_bytes;
    this.bar.value = upload.offset_bytes / upload.length_bytes;
    this.say(gettext("interrupted; choose the same file again to go on"));
    this.transfer = new FileTransfer({ url, item: { file: new Blob(), path: upload.path }, known: upload, on: {} });
    this.transfer.upload.url = `${url}${upload.id}/`;
  }

  become(state) {
    this.state = state;
    this.why.textContent = "";
    const can = {
      waiting: ["cancel"],
      running: ["pause", "cancel"],
      paused: ["resume", "cancel"],
      offered: ["cancel"],
      failed: this.isAsking ? ["replace", "both", "skip"] : this.transfer ? ["retry", "cancel"] : ["cancel"],
    };
    const all = {
      pause: [gettext("Pause"), () => this.pause()],
      resume: [gettext("Go on"), () => this.resume()],
      retry: [gettext("Try again"), () => this.resume()],
      cancel: [gettext("Cancel"), () => this.cancel()],
      replace: [gettext("Replace"), () => this.form.decide(this, "replace")],
      both: [gettext("Keep both"), () => this.form.decide(this, "keep_both")],
      skip: [gettext("Skip"), () => this.form.decide(this, SKIP)],
    };
    this.actions.replaceChildren(
      ...(can[state] ?? []).map((name) => {
        const [words, act] = all[name];
        const made = button(words, act, "btn btn-sm");
        made.setAttribute("aria-label", `${words}: ${this.name}`);
        return made;
      }),
    );
  }

  say(words) {
    this.words.textContent = words;
  }

  remove() {
    this.line.remove();
    this.form.rows.delete(this);
  }
}

function element(tag, className = "", text = "") {
  return Object.assign(document.createElement(tag), { className, textContent: text });
}

function button(words, act, className = "btn") {
  const made = Object.assign(element("button", className, words), { type: "button" });
  made.addEventListener("click", act);
  return made;
}

attach("form[data-upload-url]", (form) => new UploadForm(form));
