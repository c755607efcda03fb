// <time data-elapsed datetime="…"> counts up ("4 min 10 s"); <time data-ago …> says "5 min ago"; both shown in
// the reader's time zone in the title, which <time data-moment …> shows at once. The server writes the same words,
// so the page reads well without this.

const SECOND_MS = 1000;

export function startTimes() {
  refresh();
  setInterval(refresh, SECOND_MS);
  document.body.addEventListener("htmx:afterSettle", refresh);
}

function refresh() {
  if (document.hidden) return;
  for (const time of document.querySelectorAll("time[data-moment]")) localize(time);
  for (const time of document.querySelectorAll("time[data-elapsed], time[data-ago]")) {
    const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime)) / SECOND_MS));
    const text = "elapsed" in time.dataset ? duration(seconds) : ago(seconds);
    if (time.textContent !== text) time.textContent = text;
    if (!time.dataset.local) {
      time.dataset.local = "1";
      time.title = new Date(time.dateTime).toLocaleString();
    }
  }
}

function localize(time) {
  const instant = new Date(time.dateTime);
  time.title = time.textContent;
  time.textContent = instant.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  delete time.dataset.moment;
}

/** The two largest units: "45 s", "4 min 10 s", "3 h 5 min", "2 d 4 h". The same as the template filter. */
export function duration(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first === -1) return "0 s";
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
