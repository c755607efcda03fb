// What the charts of a session, and of accelerators, draw: which series, in which units, and how REST's lists become uPlot's.
import { format, gettext, ngettext } from "./words.js";

const GAP_STEPS = 3;
const TOLD_ROWS = 12;
const UNITS = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]];

/** `ofSpans`: only where a point is a minute or more, whose mean hides what was most. `ofDevices`: only where there are any. */
export const CHARTS = [
  {
    key: "cpu",
    title: "CPU",
    unit: "cores",
    divisor: 1000,
    least: 0.05,
    limit: "cpu_milli",
    series: [
      { key: "cpu_milli", label: gettext("Used"), tone: "busy", isFilled: true },
      { key: "cpu_milli_max", label: gettext("Maximum"), tone: "busy", isDashed: true, ofSpans: true },
      { key: "cpu_milli_held", label: gettext("Held"), words: gettext("{amount} held"), tone: "warn" },
    ],
  },
  {
    key: "memory",
    title: gettext("Memory"),
    unit: "bytes",
    divisor: 1,
    least: 2 ** 20,
    limit: "mem_bytes",
    series: [
      { key: "mem_bytes", label: gettext("Used"), tone: "good", isFilled: true },
      { key: "mem_bytes_max", label: gettext("Maximum"), tone: "good", isDashed: true, ofSpans: true },
      { key: "mem_bytes_held", label: gettext("Held"), words: gettext("{amount} held"), tone: "warn" },
    ],
  },
  {
    key: "devices",
    title: gettext("Accelerators"),
    unit: "percent",
    divisor: 1,
    least: 100,
    ofDevices: true,
    series: [
      { key: "device_percent", label: gettext("Used"), tone: "busy", isFilled: true },
      { key: "device_percent_max", label: gettext("Maximum"), tone: "busy", isDashed: true, ofSpans: true },
    ],
  },
  {
    key: "device-memory",
    title: gettext("Memory of accelerators"),
    unit: "bytes",
    divisor: 1,
    least: 2 ** 20,
    limit: "device_mem_bytes",
    ofDevices: true,
    series: [
      { key: "device_mem_bytes", label: gettext("Used"), tone: "good", isFilled: true },
      { key: "device_mem_bytes_max", label: gettext("Maximum"), tone: "good", isDashed: true, ofSpans: true },
    ],
  },
  {
    key: "network",
    title: gettext("Network"),
    unit: "bytes/s",
    divisor: 1,
    least: 2 ** 10,
    series: [
      { key: "net_received", label: gettext("In"), words: gettext("{amount} in"), tone: "busy", isFilled: true },
      { key: "net_sent", label: gettext("Out"), words: gettext("{amount} out"), tone: "warn" },
    ],
  },
  {
    key: "disk",
    title: gettext("Disk"),
    unit: "bytes/s",
    divisor: 1,
    least: 2 ** 10,
    series: [
      { key: "disk_read", label: gettext("Read"), words: gettext("{amount} read"), tone: "good", isFilled: true },
      { key: "disk_written", label: gettext("Written"), words: gettext("{amount} written"), tone: "warn" },
    ],
  },
];

/** What is drawn of one accelerator. */
export const DEVICE_CHARTS = [
  deviceChart("percent", gettext("Use"), { unit: "percent", least: 100, tone: "busy" }),
  deviceChart("mem_bytes", gettext("Memory"), { unit: "bytes", least: 2 ** 20, tone: "good", limit: "mem_bytes" }),
  deviceChart("watts", gettext("Power"), { unit: "watts", least: 10, tone: "warn" }),
  deviceChart("celsius", gettext("Temperature"), { unit: "celsius", least: 50, tone: "bad" }),
];

function deviceChart(key, title, { unit, least, tone, limit }) {
  const series = [
    { key, label: title, tone, isFilled: true },
    { key: `${key}_max`, label: gettext("Maximum"), tone, isDashed: true, ofSpans: true },
  ];
  return { key, title, unit, divisor: 1, least, limit, ofDevices: true, isSmall: true, series };
}

/** Those that this container, or this accelerator, has something for. */
export function chartsOf(kernel) {
  if (kernel.device_id) return DEVICE_CHARTS;
  return CHARTS.filter(({ ofDevices }) => !ofDevices || kernel.limits.device_milli > 0);
}

/** The series of a chart that this part has: containers tell a maximum, machines what is held. Without `isLong`, none of spans. */
export function seriesOf(chart, part, isLong) {
  return chart.series.filter(({ key, ofSpans }) => key in part && (isLong || !ofSpans));
}

/** The line that a chart has for a limit of this container, if it is known. */
export function limitOf(chart, kernel) {
  return chart.limit && kernel.limits[chart.limit] !== null ? chart.limit : undefined;
}

/** uPlot's lists: instants, each series, the limit. Where nothing was measured for a while the lines break. */
export function aligned(kernel, series, limit, stepS) {
  const chart = [...CHARTS, ...DEVICE_CHARTS].find(({ series: own }) => own.includes(series[0]));
  const lists = [[], ...series.map(() => []), ...(limit ? [[]] : [])];
  const put = (at, values) => [at, ...values, ...(limit ? [kernel.limits[limit] / chart.divisor] : [])].forEach((value, index) => lists[index].push(value));
  kernel.at.forEach((at, index) => {
    const before = kernel.at[index - 1];
    if (at - before > GAP_STEPS * stepS) put(before + stepS, series.map(() => null));
    put(at, series.map(({ key }) => (kernel[key][index] === null ? null : kernel[key][index] / chart.divisor)));
  });
  return lists;
}

/** A unit that both have is said once: {used: "0.25", limit: "2 cores"}, {used: "512 MiB", limit: "1 GiB"}. */
export function share(unit, used, limit) {
  const [part, whole] = [amount(unit, used), amount(unit, limit)];
  if (unit === "cores") return { used: cores(used), limit: whole };
  const [number, name] = part.split(" ");
  return { used: whole.endsWith(` ${name}`) ? number : part, limit: whole };
}

const cores = (value) => Number(value.toFixed(value < 0.1 ? 3 : 2));

/** "0.25 cores", "1.5 GiB", "20 KiB/s", "12 %". */
export function amount(unit, value) {
  if (unit === "cores") {
    const count = cores(value);
    return format(ngettext("{count} core", "{count} cores", count), { count });
  }
  if (unit === "percent") return `${Number(value.toFixed(1))} %`;
  if (unit === "watts") return `${Math.round(value)} W`;
  if (unit === "celsius") return `${Math.round(value)} °C`;
  const ending = unit === "bytes" ? "" : "/s";
  const [name, size] = UNITS.find(([, each]) => value >= each) ?? ["B", 1];
  return `${Number((value / size).toFixed(1))} ${name}${ending}`;
}

/** Indexes of some rows of `count`, evenly, the last one with them. */
export function chosenRows(count) {
  const step = Math.max(1, Math.ceil(count / TOLD_ROWS));
  return Array.from({ length: Math.ceil(count / step) }, (_, index) => count - 1 - index * step).reverse();
}
