// <time data-elapsed datetime="…"> counts up ("4 min 10 s"), <time data-left …> counts down, <time data-ago …> says
// "5 min ago"; the title has the instant in the reader's time zone. <time data-moment …> shows that zone's clock, with
// the date where it is not today's. The server writes the same words, so the page reads well without this.
import { format, gettext } from "./words.js";

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const LANGUAGE = document.documentElement.lang || undefined;
const UNITS = [
  [gettext("{number} d"), 86400],
  [gettext("{number} h"), 3600],
  [gettext("{number} min"), 60],
  [gettext("{number} s"), 1],
];
const WORDS = {
  elapsed: (past) => duration(past),
  left: (past) => duration(-past),
  ago: (past) => ago(past),
};

export function startTimes() {
  // A control for date and time names no zone: a hidden field beside it does. What it says already is UTC until then.
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  for (const control of document.querySelectorAll("[data-instant]")) control.value = localMinute(control.dataset.instant);
  for (const zone of document.querySelectorAll("[data-time-zone]")) zone.value = timeZone;
  // What is drawn by days is asked for once more where these are not the reader's; htmx listens from then on.
  document.addEventListener("DOMContentLoaded", () => {
    for (const drawn of document.querySelectorAll("[data-drawn-in]")) {
      if (drawn.dataset.drawnIn !== timeZone) drawn.dispatchEvent(new Event("berth:time-zone"));
    }
  });
  refresh();
  setInterval(refresh, SECOND_MS);
  document.body.addEventListener("htmx:afterSwap", refresh);
}

function refresh() {
  if (document.hidden) return;
  for (const time of document.querySelectorAll("time[data-moment]")) localize(time);
  for (const time of document.querySelectorAll("time[data-elapsed], time[data-left], time[data-ago]")) {
    const kind = Object.keys(WORDS).find((name) => name in time.dataset);
    const text = WORDS[kind]((Date.now() - Date.parse(time.dateTime)) / SECOND_MS);
    if (time.textContent !== text) time.textContent = text;
    if (!time.dataset.local) {
      time.dataset.local = "1";
      time.title = new Date(time.dateTime).toLocaleString(LANGUAGE);
    }
  }
}

function localize(time) {
  const instant = new Date(time.dateTime);
  const isToday = instant.toDateString() === new Date().toDateString();
  time.title = instant.toLocaleString(LANGUAGE, { dateStyle: "full", timeStyle: "long" });
  time.textContent = isToday
    ? instant.toLocaleTimeString(LANGUAGE, { timeStyle: "medium" })
    : instant.toLocaleString(LANGUAGE, { dateStyle: "medium", timeStyle: "short" });
  delete time.dataset.moment;
}

/** "2026-05-01T18:00", as a control for date and time takes it. */
function localMinute(text) {
  const instant = new Date(text);
  return new Date(instant - instant.getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, 16);
}

/** The two largest units: "45 s", "4 min 10 s", "3 h 5 min", "2 d 4 h". The same as the template filter. */
export function duration(seconds) {
  if (seconds > 0 && seconds < 1) return gettext("<1 s");
  const [larger_unit, smaller_unit] = unitWords(seconds);
  return smaller_unit ? format(gettext("{larger_unit} {smaller_unit}"), { larger_unit, smaller_unit }) : larger_unit;
}

function ago(seconds) {
  if (seconds < 5) return gettext("just now");
  return format(gettext("{duration} ago"), { duration: unitWords(seconds)[0] });
}

/** One or two units, the larger first; "0 s" for what is less than a second. */
function unitWords(seconds) {
  let rest = Math.max(Math.floor(seconds), 0);
  const first = UNITS.findIndex(([, size]) => rest >= size);
  const words = [];
  for (const [unit, size] of UNITS.slice(first).slice(0, first === -1 ? 1 : 2)) {
    const number = Math.floor(rest / size);
    if (number || !words.length) words.push(format(unit, { number }));
    rest -= number * size;
  }
  return words;
}
