// Terminals: xterm.js in each [data-terminal-url], a websocket to a shell in the container.
// Binary frames are bytes of the terminal, both ways. Text frames are JSON: up {"type":"resize","columns","rows"}
// and {"type":"ack","bytes"} (so many bytes were drawn: the server pauses when too many are not); down
// {"type":"exit","code"} and {"type":"error","message"}.
import { FitAddon } from "@xterm/addon-fit";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal } from "@xterm/xterm";
import { attach } from "./features.js";
import { backOff } from "./requests.js";
import { TerminalTabs } from "./terminal_tabs.js";
import { format, gettext } from "./words.js";

const ACK_BYTES = 64 * 1024;
const MAX_ATTEMPTS = 8;
const REFUSED = 4000; // close codes of our own: trying again would be refused again
const NORMAL = 1000;
const THEME = {
  background: "#0d1419",
  foreground: "#d5dee4",
  cursor: "#5cc4da",
  cursorAccent: "#0d1419",
  selectionBackground: "#2b4a58",
  black: "#1b262e",
  red: "#f07178",
  green: "#7fd9a2",
  yellow: "#f0c26a",
  blue: "#6fb3ec",
  magenta: "#c99bf0",
  cyan: "#5cc4da",
  white: "#d5dee4",
  brightBlack: "#6d7d8a",
  brightRed: "#ff9da3",
  brightGreen: "#a5ebc0",
  brightYellow: "#ffdc9a",
  brightBlue: "#a3d1f7",
  brightMagenta: "#dfc1fa",
  brightCyan: "#8fdceb",
  brightWhite: "#ffffff",
};

const arrow = (letter) => (isApplication) => (isApplication ? `\x1bO${letter}` : `\x1b[${letter}`);
const KEYS = {
  Escape: () => "\x1b",
  Tab: () => "\t",
  ArrowUp: arrow("A"),
  ArrowDown: arrow("B"),
  ArrowRight: arrow("C"),
  ArrowLeft: arrow("D"),
};

Terminal.strings.promptLabel = gettext("Terminal input");

class Shell {
  constructor(frame) {
    this.frame = frame;
    this.attempt = 0;
    this.undrawn = 0;
    this.terminal = new Terminal({ theme: THEME, fontSize: 13, scrollback: 5000, cursorBlink: true, fontFamily: monospace() });
    this.fit = new FitAddon();
    this.terminal.loadAddon(this.fit);
    this.terminal.loadAddon(new WebLinksAddon());
    openWithNonce(this.terminal, frame.querySelector("[data-terminal-screen]"));
    this.listen();
    this.connect();
  }

  listen() {
    const encoder = new TextEncoder();
    this.terminal.onData((text) => this.type(encoder.encode(this.withControl(text))));
    this.terminal.onBinary((text) => this.send(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
    this.terminal.onResize(({ cols, rows }) => this.tell({ type: "resize", columns: cols, rows }));
    this.terminal.attachCustomKeyEventHandler((event) => this.handleCopyKeys(event));
    this.observer = new ResizeObserver(() => this.fitToFrame());
    this.observer.observe(this.frame);
    this.frame.querySelector("[data-terminal-reconnect]").addEventListener("click", () => this.reconnect());
    const full = this.frame.querySelector("[data-terminal-full]");
    full.hidden = !this.frame.requestFullscreen;
    full.addEventListener("click", () => this.frame.requestFullscreen());
    this.controlKey = this.frame.querySelector('[data-key="Control"]');
    for (const key of this.frame.querySelectorAll("[data-key]")) {
      key.addEventListener("pointerdown", (event) => event.preventDefault()); // the touch keyboard stays open
      key.addEventListener("click", () => this.press(key.dataset.key));
    }
  }

  connect() {
    clearTimeout(this.retry);
    this.refusal = "";
    this.hasEnded = false;
    this.undrawn = 0;
    this.show("waiting", gettext("Connecting…"));
    const url = new URL(this.frame.dataset.terminalUrl, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.opened();
    socket.onmessage = ({ data }) => (typeof data === "string" ? this.hear(JSON.parse(data)) : this.draw(data));
    socket.onclose = (event) => socket === this.socket && this.closed(event);
    this.socket = socket;
  }

  opened() {
    this.attempt = 0;
    this.fitToFrame();
    this.tell({ type: "resize", columns: this.terminal.cols, rows: this.terminal.rows });
    this.show("live", gettext("Connected"));
    if (this.frame.checkVisibility()) this.focus();
  }

  draw(data) {
    const socket = this.socket;
    this.terminal.write(new Uint8Array(data), () => {
      this.undrawn += data.byteLength;
      if (this.undrawn < ACK_BYTES || socket !== this.socket) return;
      this.tell({ type: "ack", bytes: this.undrawn });
      this.undrawn = 0;
    });
  }

  hear(message) {
    if (message.type === "exit") {
      this.hasEnded = true;
      const { code } = message;
      this.stop(code === null || code === undefined ? gettext("The shell has ended.") : format(gettext("The shell has ended with code {code}."), { code }));
    } else if (message.type === "error") {
      this.refusal = message.message;
    }
  }

  closed({ code, reason }) {
    if (this.hasEnded) return;
    if (this.refusal || code >= REFUSED) {
      this.stop(this.refusal || reason || gettext("The portal has closed this terminal."));
    } else if (code === NORMAL) {
      this.stop(gettext("The shell has ended."));
    } else if (this.attempt >= MAX_ATTEMPTS) {
      this.stop(gettext("The terminal cannot be reached."));
    } else {
      this.retryLater();
    }
  }

  retryLater() {
    const wait = backOff(this.attempt++);
    this.show("waiting", format(gettext("Connection lost; a new shell in {seconds} s"), { seconds: Math.ceil(wait / 1000) }));
    this.retry = setTimeout(() => this.reconnect(), wait);
  }

  reconnect() {
    this.terminal.write("\x1bc");
    this.connect();
  }

  stop(words) {
    this.show("ended", words);
    this.terminal.write(`\r\n\x1b[2m${words} ${gettext("Press Enter for a new shell.")}\x1b[0m\r\n`);
  }

  type(bytes) {
    const isEnter = bytes.length === 1 && bytes[0] === 13;
    if (this.frame.dataset.state === "ended" && isEnter) this.reconnect();
    else this.send(bytes);
  }

  /** A key of the row below the screen; Ctrl holds until the next letter. */
  press(key) {
    if (key === "Control") this.holdControl(!this.isControlHeld);
    else this.terminal.input(KEYS[key](this.terminal.modes.applicationCursorKeysMode));
    this.focus();
  }

  get isControlHeld() {
    return this.controlKey.getAttribute("aria-pressed") === "true";
  }

  holdControl(isHeld) {
    this.controlKey.setAttribute("aria-pressed", String(isHeld));
  }

  withControl(text) {
    if (!this.isControlHeld || text.length !== 1) return text;
    this.holdControl(false);
    return String.fromCharCode(text.toUpperCase().charCodeAt(0) & 0x1f);
  }

  focus() {
    this.terminal.focus();
  }

  send(data) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(data);
  }

  tell(message) {
    this.send(JSON.stringify(message));
  }

  fitToFrame() {
    const size = this.fit.proposeDimensions();
    if (size && size.cols > 1 && size.rows > 1) this.fit.fit();
  }

  /** Ctrl-Shift-C copies, as in other terminals; Ctrl-C copies only what is selected. Paste is the browser's. */
  handleCopyKeys(event) {
    const isCopy = event.type === "keydown" && event.ctrlKey && event.code === "KeyC";
    if (isCopy && (event.shiftKey || this.terminal.hasSelection())) {
      event.preventDefault();
      navigator.clipboard?.writeText(this.terminal.getSelection());
      this.terminal.clearSelection();
      return false;
    }
    return !(event.ctrlKey && event.shiftKey && event.code === "KeyV");
  }

  show(state, words) {
    this.frame.dataset.state = state;
    const shown = this.frame.querySelector("[data-terminal-state]");
    shown.dataset.state = state;
    shown.textContent = words;
    this.frame.querySelector("[data-terminal-reconnect]").hidden = state !== "ended";
  }

  end() {
    clearTimeout(this.retry);
    this.hasEnded = true;
    this.observer.disconnect();
    this.socket.close(NORMAL);
    this.terminal.dispose();
  }
}

/** xterm writes <style> elements while it opens; the Content-Security-Policy wants our nonce on them. */
function openWithNonce(terminal, screen) {
  const nonce = document.querySelector("script[nonce]")?.nonce ?? "";
  const create = Document.prototype.createElement;
  document.createElement = (name, options) => {
    const element = create.call(document, name, options);
    if (name === "style") element.nonce = nonce;
    return element;
  };
  try {
    terminal.open(screen);
  } finally {
    delete document.createElement;
  }
}

function monospace() {
  return getComputedStyle(document.documentElement).getPropertyValue("--tblr-font-monospace").trim() || "monospace";
}

/** Places with tabs, by their blank frame: as the server wrote it, before a shell starts in it. */
const blanks = new Map();
const known = new WeakSet();
const noteBlanks = (root) => {
  for (const place of [...(root.matches?.("[data-terminals]") ? [root] : []), ...root.querySelectorAll("[data-terminals]")]) {
    if (!known.has(place)) blanks.set(place, place.querySelector("[data-terminal-url]").cloneNode(true));
    known.add(place);
  }
};
const startTabs = () => {
  for (const [place, blank] of blanks) new TerminalTabs(place, blank, shells);
  blanks.clear();
};
noteBlanks(document);
document.body.addEventListener("htmx:load", ({ target }) => noteBlanks(target)); // before attach() hears of it
const shells = attach("[data-terminal-url]", (frame) => new Shell(frame));
document.body.addEventListener("htmx:load", startTabs);
startTabs();
