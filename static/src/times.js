// <time data-elapsed datetime="…"> counts up ("4 min 10 s"), <time data-left …> counts down, <time data-ago …> says
// "5 min ago"; the title has the instant in the reader's time zone. <time data-moment …> shows that zone's clock, with
// the date where it is not today's. The server writes the same words, so the page reads well without this.

const SECOND_MS = 1000;
const WORDS = {
  elapsed: (past) => duration(past),
  left: (past) => duration(-past),
  ago: (past) => ago(past),
};

export function startTimes() {
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
      time.title = new Date(time.dateTime).toLocaleString();
    }
  }
}

function localize(time) {
  const instant = new Date(time.dateTime);
  const isToday = instant.toDateString() === new Date().toDateString();
  time.title = instant.toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });
  time.textContent = isToday
    ? instant.toLocaleTimeString(undefined, { timeStyle: "medium" })
    : instant.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  delete time.dataset.moment;
}

/** The two largest units: "45 s", "4 min 10 s", "3 h 5 min", "2 d 4 h". The same as the template filter. */
export function duration(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first === -1) return seconds > 0 ? "<1 s" : "0 s";
  let rest = seconds;
  const words = [];
  for (const [unit, size] of units.slice(first, first + 2)) {
    const amount = Math.floor(rest / size);
    if (amount) words.push(`${amount} ${unit}`);
    rest -= amount * size;
  }
  return words.join(" ");
}

function ago(seconds) {
  if (seconds < 5) return "just now";
  const [largest] = duration(seconds).match(/^\d+ \S+/);
  return `${largest} ago`;
}
