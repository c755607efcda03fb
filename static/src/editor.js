// Editor of text files (templates/vfolders/file.html): CodeMirror with the language of the file's name. Saving tells the
// server the etag that was read; if another writer was faster, nothing is lost on either side.
import { indentWithTab } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { markdown } from "@codemirror/lang-markdown";
import { python } from "@codemirror/lang-python";
import { yaml } from "@codemirror/lang-yaml";
import { StreamLanguage } from "@codemirror/language";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { toml } from "@codemirror/legacy-modes/mode/toml";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { basicSetup } from "codemirror";
import { attach } from "./features.js";
import { renewToken, tokenHeaders } from "./requests.js";
import { format, gettext } from "./words.js";

const LANGUAGES = {
  py: python, json, ipynb: json, md: markdown, yaml, yml: yaml,
  sh: () => StreamLanguage.define(shell), bash: () => StreamLanguage.define(shell), toml: () => StreamLanguage.define(toml),
};

class Editor {
  constructor(card) {
    this.card = card;
    this.status = card.querySelector("[data-editor-status]");
    this.button = card.querySelector("[data-save]");
    this.warn = (event) => this.isChanged && event.preventDefault();
    addEventListener("beforeunload", this.warn);
    this.open();
  }

  /** The text comes once more, as data: a text area would change unusual line breaks. */
  async open() {
    const plain = this.card.querySelector("[data-editor-text]");
    const answer = await fetch(this.card.dataset.editor);
    if (!answer.ok) return this.say(gettext("The editor could not load the file. Reload the page."), "is-bad");
    const { text, etag } = await answer.json();
    this.card.dataset.etag = etag;
    const { canWrite, name } = this.card.dataset;
    const isWritable = canWrite !== undefined;
    const language = LANGUAGES[name.split(".").pop().toLowerCase()];
    this.view = new EditorView({
      doc: text,
      extensions: [
        basicSetup,
        EditorState.lineSeparator.of("\n"),
        keymap.of([{ key: "Mod-s", preventDefault: true, run: () => this.save() || true }, indentWithTab]),
        EditorView.cspNonce.of(document.querySelector("script[nonce]")?.nonce ?? ""),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": name }),
        EditorState.readOnly.of(!isWritable),
        EditorView.updateListener.of((update) => update.docChanged && this.change()),
        ...(language ? [language()] : []),
      ],
    });
    plain.replaceWith(this.view.dom);
    this.button?.addEventListener("click", () => this.save());
  }

  change() {
    this.isChanged = true;
    if (this.button) this.button.disabled = false;
    this.say(gettext("Not saved yet."));
  }

  async save() {
    if (!this.button || !this.isChanged || this.isSaving) return;
    this.isSaving = true;
    this.say(gettext("Saving…"));
    const document_ = this.view.state.doc;
    const { etag, encoding, newline } = this.card.dataset;
    const body = { text: document_.toString(), etag, encoding, newline: newline === "crlf" ? "\r\n" : "\n" };
    try {
      const headers = { ...tokenHeaders(), "Content-Type": "application/json" };
      const answer = await fetch(this.card.dataset.editor, { method: "PUT", headers, body: JSON.stringify(body) });
      const said = await answer.json().catch(() => ({}));
      if (answer.ok) {
        this.card.dataset.etag = said.etag;
        this.isChanged = this.view.state.doc !== document_;
        this.button.disabled = !this.isChanged;
        this.say(gettext("Saved."), "is-good");
      } else {
        renewToken({ getResponseHeader: (name) => answer.headers.get(name) });
        const sentence = [said.message, said.hint].filter(Boolean).join(" ");
        this.say(sentence || format(gettext("The portal answered with status {status}."), { status: answer.status }), "is-bad");
      }
    } catch {
      this.say(gettext("The portal cannot be reached; nothing was saved. Your text is still here."), "is-bad");
    } finally {
      this.isSaving = false;
    }
  }

  say(text, tone = "") {
    this.status.textContent = text;
    this.status.className = `editor-status ${tone}`;
  }

  end() {
    removeEventListener("beforeunload", this.warn);
    this.view?.destroy();
  }
}

attach("[data-editor]", (card) => new Editor(card));
