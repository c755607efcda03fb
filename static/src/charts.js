// What a session or accelerators use, over time: [data-charts-url] is the REST address of the metrics. One card for each
// chart (those of an accelerator in its [data-device-charts]), with the present values in words and a table of the same for who does not see it. Asks again while the session runs.
import uPlot from "uplot";
import { attach } from "./features.js";
import { aligned, amount, chartsOf, chosenRows, limitOf, seriesOf, share } from "./chart_data.js";
import { fromThisPage } from "./requests.js";
import { format, gettext } from "./words.js";

const ASK_EVERY_MS = 10_000;
const HEIGHT_PX = 190;
const SMALL_PX = 92;
const AXIS_PX = { cores: 48, percent: 56 };
const LANGUAGE = document.documentElement.lang || undefined;

class Charts {
  constructor(frame) {
    this.frame = frame;
    this.state = frame.querySelector("[data-charts-state]");
    this.place = frame.querySelector("[data-charts]");
    this.cards = new Map();
    this.themes = new MutationObserver(() => this.redraw());
    this.themes.observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
    this.sizes = new ResizeObserver(() => this.fit());
    this.sizes.observe(this.frame);
    this.leaving = new AbortController();
    document.addEventListener("visibilitychange", () => !document.hidden && this.ask(), { signal: this.leaving.signal });
    this.say(gettext("Reading what it used…"));
    this.ask();
  }

  async ask() {
    clearTimeout(this.timer);
    if (document.hidden) return;
    try {
      const { chartsUrl, window, kernel } = this.frame.dataset;
      const url = `${chartsUrl}?${new URLSearchParams({ window, ...(kernel && { kernel }) })}`;
      const answer = await fetch(url, { signal: this.leaving.signal, headers: fromThisPage({ Accept: "application/json" }) });
      const told = await answer.json();
      if (answer.ok) this.show(told);
      else this.say(told.message);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.say(gettext("The portal cannot be reached. What is drawn here may be old."));
    }
    if ("isLive" in this.frame.dataset) this.timer = setTimeout(() => this.ask(), ASK_EVERY_MS);
  }

  show(told) {
    const parts = told.kernels ?? told.devices;
    const kernels = parts.filter((kernel) => kernel.at.length);
    this.say(stateWords(told, kernels));
    for (const name of ["notice", "is-warn"]) this.state.classList.toggle(name, Boolean(told.unmeasured_since));
    for (const kernel of kernels) {
      for (const chart of chartsOf(kernel)) {
        const key = `${nameOf(kernel)} ${chart.key}`;
        if (!this.cards.has(key)) this.cards.set(key, this.makeCard(chart, kernel, parts.length > 1));
        this.fill(this.cards.get(key), chart, kernel, told.step_s);
      }
    }
  }

  makeCard(chart, kernel, isOneOfMany) {
    const kernelName = isOneOfMany && !chart.isSmall ? kernel.name : "";
    const card = document.createElement(chart.isSmall ? "div" : "section");
    card.className = chart.isSmall ? "chart-small" : "card chart-card";
    const head = Object.assign(document.createElement("div"), { className: chart.isSmall ? "chart-head" : "card-header chart-head" });
    const title = Object.assign(document.createElement(chart.isSmall ? "span" : "h2"), { className: chart.isSmall ? "" : "card-title", textContent: kernelName ? format(gettext("{chart} of {container}"), { chart: chart.title, container: kernelName }) : chart.title });
    const now = Object.assign(document.createElement("span"), { className: "chart-now" });
    head.append(title, now);
    const body = Object.assign(document.createElement("div"), { className: "chart-body" });
    const table = Object.assign(document.createElement("table"), { className: "visually-hidden" });
    card.append(head, body, table);
    this.placeOf(kernel).append(card);
    return { body, now, table, plot: null };
  }

  placeOf(kernel) {
    const places = [...this.frame.querySelectorAll("[data-device-charts]")];
    return places.find((place) => place.dataset.deviceCharts === nameOf(kernel)) ?? this.place;
  }

  fill(card, chart, kernel, stepS) {
    const series = seriesOf(chart, kernel, stepS >= 60);
    const limit = limitOf(chart, kernel);
    const data = aligned(kernel, series, limit, stepS);
    card.chart = chart;
    card.present = presentWords(kernel, chart);
    card.now.textContent = card.present;
    fillTable(card.table, chart, kernel);
    const signature = `${series.length} ${stepS >= 60} ${limit}`;
    if (card.plot && card.signature === signature) card.plot.setData(data);
    else this.draw(card, { chart, series, limit, data, signature });
  }

  draw(card, { chart, series, limit, data, signature }) {
    card.plot?.destroy();
    card.drawn = { chart, series, limit, data, signature };
    card.signature = signature;
    card.plot = new uPlot(options(card, card.body.clientWidth), data, card.body);
    card.plot.root.setAttribute("aria-hidden", "true");
  }

  redraw() {
    for (const card of this.cards.values()) if (card.plot) this.draw(card, { ...card.drawn, data: card.plot.data });
  }

  fit() {
    for (const { plot, body } of this.cards.values()) {
      if (plot && plot.width !== body.clientWidth) plot.setSize({ width: body.clientWidth, height: plot.height });
    }
  }

  say(words) {
    if (this.state.textContent !== words) this.state.textContent = words;
  }

  end() {
    clearTimeout(this.timer);
    this.leaving.abort();
    this.themes.disconnect();
    this.sizes.disconnect();
    for (const { plot } of this.cards.values()) plot?.destroy();
  }
}

/** What stands above the charts: why they stand still or are empty. */
function stateWords(told, kernels) {
  if (told.unmeasured_since) {
    const time = new Date(told.unmeasured_since).toLocaleString(LANGUAGE, { timeStyle: "medium", dateStyle: "short" });
    return format(gettext("Not measured since {time}. The charts go on when its machine can be measured again."), { time });
  }
  if (kernels.length) return "";
  return told.devices ? gettext("Nothing was measured in this time. Accelerators are measured every ten seconds.") : gettext("Nothing was measured in this time. A session is measured every ten seconds while it runs.");
}

/** Accelerators may have the same name in several containers, or on several machines. */
function nameOf(part) {
  return part.device_id ? `${part.container} ${part.device_id}`.trim() : part.name;
}

function options(card, width) {
  const { chart, series, limit } = card.drawn;
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => resolved(style.getPropertyValue(name));
  const lines = { stroke: colour("--tblr-secondary-color"), grid: { stroke: colour("--tblr-border-color"), width: 1 }, ticks: { show: false }, font: '12px "Inter Variable", sans-serif' };
  const drawn = series.map(({ label, tone, isFilled, isDashed }) => ({
    label,
    stroke: colour(`--berth-${tone}-strong`),
    fill: isFilled ? faint(colour(`--berth-${tone}-strong`)) : undefined,
    width: isDashed ? 1 : 1.75,
    dash: isDashed ? [3, 3] : undefined,
    points: { show: false },
    value: (plot, value) => (value === null ? "" : amount(chart.unit, value)),
  }));
  if (limit) drawn.push({ label: gettext("Limit"), stroke: colour("--berth-bad-strong"), width: 1.25, dash: [6, 4], points: { show: false }, value: (plot, value) => (value === null ? "" : amount(chart.unit, value)) });
  return {
    width,
    height: chart.isSmall ? SMALL_PX : HEIGHT_PX,
    padding: [12, chart.isSmall ? 8 : 40, 0, 0],
    cursor: { sync: { key: "session" }, drag: { x: false, y: false }, points: { size: 7 } },
    legend: { show: !chart.isSmall, live: true },
    hooks: chart.isSmall ? { setCursor: [(plot) => sayAt(card, plot)] } : {},
    scales: { y: { range: (plot, low, high) => [0, Math.max(high * 1.08, chart.least)] } },
    axes: [
      { ...lines, show: !chart.isSmall, size: 34, space: 90, values: (plot, instants) => instants.map((at) => clockWords(at, plot)) },
      { ...lines, show: !chart.isSmall, size: AXIS_PX[chart.unit] ?? 80, splits: (plot, axis, low, high) => ticks(chart.unit, high), values: (plot, values) => values.map((value) => (chart.unit === "cores" ? String(Number(value.toFixed(3))) : amount(chart.unit, value))) },
    ],
    series: [{ label: "", value: (plot, at) => (at === null ? "" : new Date(at * 1000).toLocaleString(LANGUAGE, { timeStyle: "medium", dateStyle: "short" })) }, ...drawn],
  };
}

/** A small chart has no legend: its head tells the value under the pointer, else the present one. */
function sayAt(card, plot) {
  const { idx } = plot.cursor;
  const value = idx === null || idx === undefined ? null : plot.data[1][idx];
  card.now.textContent = value === null || value === undefined ? card.present : amount(card.chart.unit, value);
}

/** Four steps of a round number: of 1, 2, 5 and their tens, or of powers of two for bytes. */
function ticks(unit, high) {
  const raw = high / 4;
  const tens = 10 ** Math.floor(Math.log10(raw));
  const step = unit === "cores" || unit === "percent" ? [1, 2, 5, 10].map((factor) => factor * tens).find((each) => each >= raw) : 2 ** Math.ceil(Math.log2(raw));
  return Array.from({ length: 6 }, (_, index) => index * step).filter((value) => value <= high);
}

function clockWords(at, plot) {
  const { min, max } = plot.scales.x;
  const instant = new Date(at * 1000);
  if (max - min < 600) return instant.toLocaleTimeString(LANGUAGE, { timeStyle: "medium" });
  if (max - min > 86_400) return instant.toLocaleDateString(LANGUAGE, { month: "short", day: "numeric" });
  return instant.toLocaleTimeString(LANGUAGE, { hour: "2-digit", minute: "2-digit" });
}

/** light-dark() and the like as a canvas understands them. */
function resolved(value) {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = value;
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function faint(colour) {
  return colour.replace(/^rgb\((.*)\)$/, "rgba($1, 0.14)");
}

function presentWords(kernel, chart) {
  const last = (name) => kernel[name].findLast((value) => value !== null);
  const told = seriesOf(chart, kernel, false).map(({ key, words }) => {
    const value = last(key);
    return value === undefined ? "" : format(words ?? "{amount}", { amount: amount(chart.unit, value / chart.divisor) });
  });
  const used = told.filter(Boolean).join(", ");
  if (!used && chart.isSmall) return gettext("not measured");
  if (!used) return chart.ofDevices ? gettext("not measured on this machine") : gettext("not known");
  if (chart.ofDevices && kernel.limits.devices_are_shared) return format(gettext("{used}, by all who share them"), { used });
  if (!limitOf(chart, kernel) || !told[0]) return used;
  const ofLimit = format(gettext("{used} of {limit}"), share(chart.unit, last(chart.series[0].key) / chart.divisor, kernel.limits[chart.limit] / chart.divisor));
  return [ofLimit, ...told.slice(1).filter(Boolean)].join(", ");
}

/** At most a dozen rows: what matters of a chart can be heard. */
function fillTable(table, chart, kernel) {
  const series = seriesOf(chart, kernel, false);
  const cell = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
  const row = (cells) => {
    const line = document.createElement("tr");
    line.append(...cells);
    return line;
  };
  const rows = chosenRows(kernel.at.length).map((index) =>
    row([
      cell("th", new Date(kernel.at[index] * 1000).toLocaleTimeString(LANGUAGE)),
      ...series.map(({ key }) => cell("td", kernel[key][index] === null ? gettext("not known") : amount(chart.unit, kernel[key][index] / chart.divisor))),
    ]),
  );
  const head = document.createElement("thead");
  head.append(row([cell("th", gettext("Time")), ...series.map(({ label }) => cell("th", label))]));
  const body = document.createElement("tbody");
  body.append(...rows);
  table.replaceChildren(cell("caption", chart.title), head, body);
}

attach("[data-charts-url]", (frame) => new Charts(frame));
