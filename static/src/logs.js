// Live logs: [data-log-url] is a stream of text. The view stays at the end until a person scrolls up.
import { attach } from "./features.js";
import { LogText } from "./log_text.js";
import { backOff } from "./requests.js";

const MAX_LINES = 10_000;
const LEAVE_HIDDEN_MS = 10_000;
const NEAR_END_PX = 24;
const NO_OUTPUT = "No output yet.";

class LiveLog {
  constructor(frame) {
    this.frame = frame;
    this.lines = frame.querySelector("[data-log-lines]");
    this.state = frame.querySelector("[data-log-state]");
    this.empty = frame.querySelector("[data-log-empty]");
    this.followButton = frame.querySelector("[data-log-follow]");
    this.isFollowing = true;
    this.attempt = 0;
    this.empty.textContent = NO_OUTPUT;
    if (matchMedia("(max-width: 767.98px)").matches) this.wrap(frame.querySelector("[data-log-wrap]"));
    this.listen();
    this.read();
  }

  listen() {
    this.stopListening = new AbortController();
    const { signal } = this.stopListening;
    const on = (target, name, react) => target.addEventListener(name, react, { signal });
    on(this.lines, "scroll", () => this.noticeScroll());
    on(this.followButton, "click", () => this.follow(!this.isFollowing));
    on(this.frame.querySelector("[data-log-wrap]"), "click", ({ currentTarget }) => this.wrap(currentTarget));
    on(document, "visibilitychange", () => this.noticeHidden());
    if (this.frame.dataset.logRefresh) on(document.body, this.frame.dataset.logRefresh, () => this.hasEnded && this.read());
  }

  /** Reads the log from its kept beginning; a second call takes the place of the first. */
  async read() {
    this.reading?.abort();
    const reading = new AbortController();
    this.reading = reading;
    this.hasEnded = false;
    this.show("waiting", "Connecting…");
    try {
      const response = await fetch(this.frame.dataset.logUrl, { signal: reading.signal, headers: { Accept: "text/plain" } });
      if (response.ok) await this.pour(response, reading);
      else this.ended(await refusalOf(response));
    } catch (error) {
      if (error.name === "AbortError" || this.reading !== reading) return;
      this.show("waiting", "Connection lost, trying again…");
      this.retry = setTimeout(() => this.read(), backOff(this.attempt++));
    }
  }

  async pour(response, reading) {
    this.attempt = 0;
    this.text = new LogText(MAX_LINES);
    this.draw();
    this.show("live", "Live");
    const stream = response.body.pipeThrough(new TextDecoderStream());
    for (const reader = stream.getReader(); ; ) {
      const { value, done } = await reader.read();
      if (this.reading !== reading) return;
      if (done) break;
      this.text.add(value);
      this.drawing ??= requestAnimationFrame(() => this.draw());
    }
    this.hasEnded = true;
    this.draw();
    this.ended("End of the log");
  }

  draw() {
    cancelAnimationFrame(this.drawing);
    this.drawing = null;
    this.text.drawInto(this.lines);
    this.empty.hidden = !this.text.isEmpty;
    this.empty.textContent = this.hasEnded ? "Nothing was written." : NO_OUTPUT;
    if (this.isFollowing) this.lines.scrollTop = this.lines.scrollHeight;
  }

  ended(words) {
    this.hasEnded = true;
    this.show("ended", words);
  }

  noticeScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.lines;
    this.setFollowing(scrollHeight - scrollTop - clientHeight < NEAR_END_PX);
  }

  follow(isFollowing) {
    this.setFollowing(isFollowing);
    if (isFollowing) this.lines.scrollTop = this.lines.scrollHeight;
  }

  setFollowing(isFollowing) {
    this.isFollowing = isFollowing;
    this.followButton.setAttribute("aria-pressed", String(isFollowing));
  }

  wrap(button) {
    const isWrapped = this.lines.classList.toggle("is-wrapped");
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
    if (this.hasEnded) return;
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
    this.stopListening.abort();
    this.reading.abort();
  }
}

async function refusalOf(response) {
  try {
    const { message } = await response.json();
    return message;
  } catch {
    return `The log cannot be read (status ${response.status}).`;
  }
}

attach("[data-log-url]", (frame) => new LiveLog(frame));
