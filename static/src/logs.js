// Live logs: [data-log-url] is a stream of text. The view stays at the end until a person scrolls up or pauses; then
// nothing that was read goes, and when twice as much has come as is kept otherwise, no more is read until they follow again.
import { attach } from "./features.js";
import { LogSearch, highlight } from "./log_search.js";
import { LogText } from "./log_text.js";
import { backOff, fromThisPage } from "./requests.js";
import { format, gettext } from "./words.js";

const MAX_LINES = 10_000;
const LEAVE_HIDDEN_MS = 10_000;
const NEAR_END_PX = 24;
const LINE = /^#L(\d{1,9})$/;

class LiveLog {
  constructor(frame) {
    this.frame = frame;
    this.view = frame.querySelector("[data-log-view]");
    this.lines = frame.querySelector("[data-log-lines]");
    this.numbers = frame.querySelector("[data-log-numbers]");
    this.state = frame.querySelector("[data-log-state]");
    this.empty = frame.querySelector("[data-log-empty]");
    this.followButton = frame.querySelector("[data-log-follow]");
    this.news = frame.querySelector("[data-log-news]");
    this.isFollowing = true;
    this.attempt = 0;
    this.text = new LogText(MAX_LINES);
    this.empty.textContent = gettext("No output yet.");
    if (matchMedia("(max-width: 767.98px)").matches) this.wrap(frame.querySelector("[data-log-wrap]"));
    this.listen();
    this.aim();
    this.read();
  }

  listen() {
    this.stopListening = new AbortController();
    const { signal } = this.stopListening;
    const on = (target, name, react) => target.addEventListener(name, react, { signal });
    on(this.view, "scroll", () => this.noticeScroll());
    on(this.numbers, "click", (event) => this.linkTo(event));
    on(this.followButton, "click", () => this.follow(!this.isFollowing));
    on(this.frame.querySelector("[data-log-wrap]"), "click", ({ currentTarget }) => this.wrap(currentTarget));
    on(document, "visibilitychange", () => this.noticeHidden());
    on(window, "hashchange", () => this.aim());
    if (this.frame.dataset.logRefresh) on(document.body, this.frame.dataset.logRefresh, () => this.hasEnded && this.read());
    this.search = new LogSearch(this.frame, { text: () => this.drawn(), reveal: (range) => this.reveal(range), on });
  }

  drawn() {
    this.text.drawInto(this.lines, this.numbers);
    return this.text;
  }

  /** Reads the log from its kept beginning; a second call takes the place of the first. */
  async read() {
    this.reading?.abort();
    const reading = new AbortController();
    this.reading = reading;
    this.hasEnded = false;
    this.show("waiting", gettext("Connecting…"));
    try {
      const response = await fetch(this.frame.dataset.logUrl, { signal: reading.signal, headers: fromThisPage({ Accept: "text/plain" }) });
      if (response.ok) await this.pour(response, reading);
      else this.ended(await refusalOf(response));
    } catch (error) {
      if (error.name === "AbortError" || this.reading !== reading) return;
      this.show("waiting", gettext("Connection lost, trying again…"));
      this.retry = setTimeout(() => this.read(), backOff(this.attempt++));
    }
  }

  async pour(response, reading) {
    this.attempt = 0;
    this.text = new LogText(MAX_LINES);
    this.text.wanted = this.target;
    this.draw();
    this.show("live", gettext("Following"));
    const stream = response.body.pipeThrough(new TextDecoderStream());
    for (const reader = stream.getReader(); ; ) {
      const { value, done } = await reader.read();
      if (this.reading !== reading) return;
      if (done) break;
      this.text.add(value);
      this.drawing ??= requestAnimationFrame(() => this.draw());
      if (this.text.isFull) await this.untilFollowed();
    }
    this.hasEnded = true;
    this.draw();
    this.ended(gettext("End of the log"));
  }

  /** Whoever reads what was written is not overrun: the stream waits, and with it the memory. */
  async untilFollowed() {
    this.show("waiting", gettext("Paused"));
    await new Promise((resolve) => (this.goOn = resolve));
    this.goOn = null;
    this.show("live", gettext("Following"));
  }

  draw() {
    cancelAnimationFrame(this.drawing);
    this.drawing = null;
    this.text.drawInto(this.lines, this.numbers);
    this.empty.hidden = !this.text.isEmpty;
    this.empty.textContent = this.hasEnded ? gettext("Nothing was written.") : gettext("No output yet.");
    this.search.again();
    if (this.target) this.showTarget();
    if (this.isFollowing) this.goToEnd();
    else this.tellNews();
  }

  ended(words) {
    this.hasEnded = true;
    this.show("ended", words);
  }

  // Where one looks

  goToEnd() {
    this.view.scrollTop = this.view.scrollHeight;
    this.ownTop = this.view.scrollTop;
  }

  /** A person's own scrolling; ours is told of late, when they may have paused. */
  noticeScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.view;
    if (scrollTop === this.ownTop) return;
    this.setFollowing(scrollHeight - scrollTop - clientHeight < NEAR_END_PX);
  }

  follow(isFollowing) {
    this.target = this.text.wanted = null;
    this.setFollowing(isFollowing);
    if (isFollowing) this.goToEnd();
  }

  setFollowing(isFollowing) {
    if (isFollowing && this.target) return; // on the way to a line
    if (isFollowing !== this.isFollowing) this.seenLine = this.text.lastLine;
    this.isFollowing = isFollowing;
    this.text.hold(!isFollowing);
    this.followButton.setAttribute("aria-pressed", String(isFollowing));
    this.tellNews();
    if (!isFollowing || !this.goOn) return;
    this.draw();
    this.goOn();
  }

  tellNews() {
    const count = this.isFollowing ? 0 : this.text.lastLine - (this.seenLine ?? this.text.lastLine);
    const words = count > 0 ? format(gettext("{count} new"), { count }) : "";
    this.news.textContent = this.target ? format(gettext("Going to line {line}"), { line: this.target }) : words;
  }

  reveal(range) {
    const { top, bottom } = range.getBoundingClientRect();
    const view = this.view.getBoundingClientRect();
    this.setFollowing(false);
    if (top < view.top || bottom > view.bottom) this.view.scrollTop += top - view.top - view.height / 3;
  }

  // A line by its address

  aim() {
    const wanted = LINE.exec(location.hash)?.[1];
    this.target = this.text.wanted = wanted ? Number(wanted) : null;
    if (!this.target) return highlight("log-line", []);
    this.isFollowing = false;
    this.followButton.setAttribute("aria-pressed", "false");
    this.showTarget();
  }

  /** Until the line has come, old ones go as ever; from then on nothing does. */
  showTarget() {
    if (this.text.lastLine < this.target && !this.hasEnded) return;
    const range = this.text.rangeOf(Math.min(this.target, this.text.lastLine));
    this.target = this.text.wanted = null;
    this.seenLine = this.text.lastLine;
    this.text.hold(true);
    this.tellNews();
    if (!range) return;
    highlight("log-line", [range]);
    this.reveal(range);
  }

  linkTo({ clientY }) {
    const { top, height } = this.numbers.getBoundingClientRect();
    const count = this.text.lastLine - this.text.firstLine + 1;
    history.replaceState(history.state, "", `#L${this.text.firstLine + Math.floor(((clientY - top) / height) * count)}`);
    this.aim();
  }

  wrap(button) {
    const isWrapped = this.view.classList.toggle("is-wrapped");
    button.setAttribute("aria-pressed", String(isWrapped));
  }

  /** A hidden page gives its connection back; it reads again when it is looked at. */
  noticeHidden() {
    clearTimeout(this.leaving);
    if (document.hidden) this.leaving = setTimeout(() => this.leave(), LEAVE_HIDDEN_MS);
    else if (this.hasLeft) {
      this.hasLeft = false;
      this.read();
    }
  }

  leave() {
    if (this.hasEnded || this.goOn) return;
    this.hasLeft = true;
    clearTimeout(this.retry);
    this.reading.abort();
  }

  show(state, words) {
    this.state.dataset.state = state;
    this.state.textContent = words;
  }

  end() {
    clearTimeout(this.retry);
    clearTimeout(this.leaving);
    this.search.end();
    highlight("log-line", []);
    this.stopListening.abort();
    this.reading.abort();
  }
}

async function refusalOf(response) {
  try {
    const { message } = await response.json();
    return message;
  } catch {
    return format(gettext("The log cannot be read (status {status})."), { status: response.status });
  }
}

attach("[data-log-url]", (frame) => new LiveLog(frame));
