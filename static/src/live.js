// News from the server become events of <body>: a fragment with
//   hx-trigger="berth:session-changed from:body, berth:poll from:body"
// fetches itself again. `berth:session-changed:<id>` is for one object. While the stream is lost, `berth:poll`
// comes every five seconds and a banner says so; it also comes once when a stream opens again, because news in
// between may have been missed. A hidden page gives its connection back: browsers open only six per host.
import { backOff } from "./requests.js";

const GATHER_MS = 150;
const POLL_MS = 5000;
const LEAVE_HIDDEN_MS = 10_000;
const SAY_LOST_MS = 2000;

export function startLive(url) {
  if (url) new LiveStream(url).follow();
}

class LiveStream {
  constructor(url) {
    this.url = url;
    this.source = null;
    this.attempt = 0;
    this.hasMissedNews = false;
    this.waiting = new Set();
    this.timers = {};
  }

  follow() {
    this.open();
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.timers.leave);
      if (document.hidden) this.timers.leave = setTimeout(() => this.close(), LEAVE_HIDDEN_MS);
      else if (!this.source && !this.timers.retry) this.open();
    });
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", (event) => event.persisted && this.open());
    addEventListener("online", () => !this.source && this.open());
  }

  open() {
    clearTimeout(this.timers.retry);
    this.timers.retry = null;
    this.source?.close();
    const source = new EventSource(this.url);
    source.onopen = () => this.opened();
    source.onmessage = (message) => this.heard(JSON.parse(message.data));
    source.onerror = () => this.source === source && this.lost();
    this.source = source;
  }

  /** On purpose: the page is hidden or left. */
  close() {
    this.source?.close();
    this.source = null;
    this.hasMissedNews = true;
    clearTimeout(this.timers.retry);
    this.timers.retry = null;
    this.stopPolling();
  }

  opened() {
    this.attempt = 0;
    this.stopPolling();
    document.getElementById("connection-lost").hidden = true;
    if (this.hasMissedNews) announce("berth:poll");
    this.hasMissedNews = false;
  }

  lost() {
    this.source.close();
    this.source = null;
    this.hasMissedNews = true;
    this.timers.retry = setTimeout(() => this.open(), backOff(this.attempt++));
    this.timers.say ??= setTimeout(() => (document.getElementById("connection-lost").hidden = false), SAY_LOST_MS);
    this.timers.poll ??= setInterval(() => announce("berth:poll"), POLL_MS);
  }

  stopPolling() {
    clearTimeout(this.timers.say);
    clearInterval(this.timers.poll);
    this.timers.say = this.timers.poll = null;
  }

  /** A burst of news of one kind becomes one event: each fragment fetches itself once. */
  heard({ kind, id }) {
    this.waiting.add(`berth:${kind}`);
    if (id !== undefined) this.waiting.add(`berth:${kind}:${id}`);
    this.timers.gather ??= setTimeout(() => {
      this.timers.gather = null;
      for (const name of this.waiting) announce(name);
      this.waiting.clear();
    }, GATHER_MS);
  }
}

function announce(name) {
  document.body.dispatchEvent(new CustomEvent(name));
}
