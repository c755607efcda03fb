// News from the server become events of <body>: a fragment with
//   hx-trigger="berth:session-changed from:body, berth:poll from:body"
// fetches itself again. `berth:session-changed:<id>` is for one object. The stream begins where the page was made and
// goes on after the last news it heard, so that a lost connection loses nothing; `news-missed` says that too much has
// happened meanwhile. While the stream is lost, `berth:poll` comes every five seconds and a banner says so. A hidden
// page gives its connection back: browsers open only six per host.
import { backOff } from "./requests.js";

const GATHER_MS = 100;
const POLL_MS = 5000;
const LEAVE_HIDDEN_MS = 10_000;
const SAY_LOST_MS = 2000;

export function startLive({ eventsUrl, eventsAfter }) {
  if (eventsUrl) new LiveStream(eventsUrl, eventsAfter).follow();
}

class LiveStream {
  constructor(url, position) {
    this.url = url;
    this.position = position;
    this.source = null;
    this.attempt = 0;
    this.waiting = new Set();
    this.timers = {};
    this.banner = document.getElementById("connection-lost");
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
    this.banner.querySelector("[data-try-now]").addEventListener("click", () => this.open());
  }

  open() {
    clearTimeout(this.timers.retry);
    this.timers.retry = null;
    this.source?.close();
    const source = new EventSource(`${this.url}?after=${encodeURIComponent(this.position)}`);
    source.onopen = () => this.opened();
    source.onmessage = (message) => this.heard(message);
    source.onerror = () => this.source === source && this.lost();
    this.source = source;
  }

  /** On purpose: the page is hidden or left. */
  close() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.timers.retry);
    this.timers.retry = null;
    this.stopPolling();
    document.body.dataset.live = "closed";
  }

  opened() {
    this.attempt = 0;
    this.stopPolling();
    document.body.dataset.live = "open";
  }

  lost() {
    this.source.close();
    this.source = null;
    document.body.dataset.live = "lost";
    this.timers.retry = setTimeout(() => this.open(), backOff(this.attempt++));
    this.timers.say ??= setTimeout(() => (this.banner.hidden = false), SAY_LOST_MS);
    this.timers.poll ??= setInterval(() => announce("berth:poll"), POLL_MS);
  }

  /** Once more at the end: what could not be told while Redis was away is in no replay. */
  stopPolling() {
    if (this.timers.poll) announce("berth:poll");
    clearTimeout(this.timers.say);
    clearInterval(this.timers.poll);
    this.timers.say = this.timers.poll = null;
    this.banner.hidden = true;
  }

  heard({ data, lastEventId }) {
    if (lastEventId) this.position = lastEventId;
    const { kind, id } = JSON.parse(data);
    this.gather(kind === "news-missed" ? "berth:poll" : `berth:${kind}`);
    if (id !== undefined) this.gather(`berth:${kind}:${id}`);
  }

  /** A burst of news of one kind becomes one event: each fragment fetches itself once. */
  gather(name) {
    this.waiting.add(name);
    this.timers.gather ??= setTimeout(() => {
      this.timers.gather = null;
      for (const waiting of this.waiting) announce(waiting);
      this.waiting.clear();
    }, GATHER_MS);
  }
}

function announce(name) {
  document.body.dispatchEvent(new CustomEvent(name));
}
