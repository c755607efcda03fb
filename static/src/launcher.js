// The launcher works as a plain form. This adds sliders beside the numbers, keeps the sizes and marks true to what the
// server last said of the room, asks for the summary while one types, and keeps the form in the address, so that it can
// be sent to somebody or kept as a bookmark.

import { DeviceChoice } from "./launcher_devices.js";
import { format, gettext } from "./words.js";

const NOT_IN_ADDRESS = new Set(["csrfmiddlewaretoken", "csrf_opened_by", "once", "environment", "callback_url", "start_at", "time_zone"]); // variables and callbacks may hold secrets; a time of day is another instant elsewhere
const LONGEST_IN_ADDRESS = 2000;
const PAUSE_MS = 250;
const QUIET_MS = 1200;
const MIB = 2 ** 20;
const FACTORS = { "": 1, k: 2 ** 10, m: MIB, g: 2 ** 30, t: 2 ** 40 };

/** How people type an amount, in base units and back. NaN for what is no amount. */
const READ = {
  cpu: (text) => Math.round(Number.parseFloat(text) * 1000),
  mem: (text) => {
    const [, number, unit] = /^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*$/i.exec(text) ?? [];
    return number === undefined ? Number.NaN : Number(number) * FACTORS[unit.toLowerCase()];
  },
};
const WRITE = {
  cpu: (amount) => String(amount / 1000),
  mem: (amount) => (amount % 2 ** 30 === 0 ? `${amount / 2 ** 30}g` : `${Math.round(amount / MIB)}m`),
};

/** By form, the fields beside CPU and memory that the chosen size filled in. */
const filled = new WeakMap();

function start(form) {
  const devices = new DeviceChoice(form);
  const sliders = [...form.querySelectorAll("[data-slider]")].map((element) => new Slider(element, form));
  const summary = form.querySelector("[data-launch-summary]");
  const say = quietly(form.querySelector("[data-launch-said]"));
  const ask = delayed(() => summary.dispatchEvent(new CustomEvent("berth:summary", { bubbles: true })), PAUSE_MS);

  const heed = (facts) => {
    for (const slider of sliders) slider.heed(facts.slots[slider.slot]);
    markSizes(form, facts.sizes);
    markImages(form, facts.images);
    devices.update(facts.devices);
  };
  form.addEventListener("input", ({ target }) => {
    if (target.matches(".slider-input")) return;
    if (target.name === "size") devices.choose(fillAmounts(form, target));
    devices.heed(target);
    for (const slider of sliders) slider.follow();
    unmark(target);
    keepInAddress(form);
    ask();
  });
  form.addEventListener("click", ({ target }) => take(form, target.closest("[data-take-cpu]")));
  summary.addEventListener("htmx:afterSwap", () => {
    heed(JSON.parse(summary.querySelector("[data-room]").dataset.room));
    say(summary.querySelector("[data-verdict]")?.textContent ?? "");
  });
  heed(JSON.parse(form.dataset.room));
  form.querySelector(".is-invalid")?.focus();
}

/** A range input beside a number: either moves the other. Marks show what the image needs and what is free. */
class Slider {
  constructor(element, form) {
    this.slot = element.dataset.slider;
    this.element = element;
    this.number = form.elements[this.slot];
    this.input = element.querySelector(".slider-input");
    this.input.addEventListener("input", () => this.lead());
  }

  /** What the server said of the room, base units: {min, left, most, step, words}; undefined where there is none. */
  heed(room) {
    this.room = room;
    this.input.closest(".slider").hidden = !room;
    for (const part of this.element.querySelectorAll("[data-room-words]")) {
      part.textContent = room?.words[part.dataset.roomWords] ?? "";
    }
    if (!room) return;
    const { min, left, most, step } = room;
    Object.assign(this.input, { min: 0, max: Math.ceil(most / step), step: 1 });
    place(this.element.querySelector(".is-min"), min / most);
    place(this.element.querySelector(".is-left"), left / most);
    this.element.querySelector(".slider-over").style.left = `${(100 * left) / most}%`;
    this.follow();
  }

  /** The slider goes where the number is. */
  follow() {
    if (!this.room) return;
    const amount = READ[this.slot](this.number.value);
    if (Number.isFinite(amount)) this.input.value = Math.round(amount / this.room.step);
    this.input.setAttribute("aria-valuetext", this.number.value);
  }

  /** The number becomes what the slider says, not less than the image needs. */
  lead() {
    const { min, most, step } = this.room;
    const amount = Math.min(most, Math.max(min, this.input.value * step));
    this.number.value = WRITE[this.slot](amount);
    this.number.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

function place(mark, part) {
  mark.hidden = part <= 0 || part > 1;
  mark.style.left = `${100 * part}%`;
}

/** Sizes that no machine has, or that the image finds too small, cannot be chosen; a chosen one stays, and is refused. */
function markSizes(form, objections) {
  for (const [key, objection] of Object.entries(objections)) {
    const radio = form.querySelector(`[name="size"][value="${key}"]`);
    if (!radio) continue; // a preset that was made, or of a project that was chosen, meanwhile
    radio.disabled = Boolean(objection) && !radio.checked;
    form.querySelector(`[data-objection="${key}"]`).textContent = objection;
  }
}

/** The same for images that policies do not allow in the chosen project: cards, or choices of a select. */
function markImages(form, objections) {
  for (const radio of form.querySelectorAll('input[name="image"]')) {
    const objection = objections[radio.value] ?? "";
    radio.disabled = Boolean(objection) && !radio.checked;
    radio.closest("label").querySelector("[data-image-objection]").textContent = objection;
  }
  for (const option of form.querySelectorAll('select[name="image"] option')) {
    const isClosed = option.value in objections;
    option.disabled = isClosed && !option.selected;
    option.textContent = isClosed
      ? format(gettext("{choice} — not allowed here"), { choice: option.dataset.label })
      : option.dataset.label;
  }
}

/**
 * A size fills in its numbers. What only the size before it said, as a device of a preset, goes with that one. Returns
 * the device that it names: "" for none any more, undefined where neither says anything of devices.
 */
function fillAmounts(form, radio) {
  const { device, ...amounts } = JSON.parse(radio.dataset.sizeFields ?? "{}");
  const before = filled.get(form) ?? [];
  for (const name of before) {
    if (!(name in amounts) && form.elements[name]) form.elements[name].value = form.elements[name].defaultValue ?? "";
  }
  for (const [name, amount] of Object.entries(amounts)) {
    if (form.elements[name]) form.elements[name].value = amount;
  }
  filled.set(form, Object.keys(amounts).filter((name) => name !== "cpu" && name !== "mem"));
  return device ?? (before.includes("device_count") ? "" : undefined);
}

/** The offer of the summary: as much as is free. */
function take(form, offer) {
  if (!offer) return;
  form.elements.size.value = "custom";
  form.elements.cpu.value = offer.dataset.takeCpu;
  form.elements.mem.value = offer.dataset.takeMem;
  form.elements.mem.dispatchEvent(new Event("input", { bubbles: true }));
  form.elements.cpu.focus();
}

/** What the server said of a field is no longer true once it was changed. */
function unmark(field) {
  if (!field.classList.contains("is-invalid")) return;
  field.classList.remove("is-invalid");
  field.removeAttribute("aria-invalid");
  for (const error of field.parentElement.querySelectorAll(".field-error")) error.remove();
}

function keepInAddress(form) {
  const chosen = [...new FormData(form)].filter(([name, value]) => value && !NOT_IN_ADDRESS.has(name));
  const short = chosen.filter(([, value]) => value.length <= LONGEST_IN_ADDRESS);
  history.replaceState(null, "", `?${new URLSearchParams(short)}`);
}

/** Screen readers hear the verdict when it changed and typing has paused, not with each letter. */
function quietly(region) {
  let said = "";
  const speak = delayed((text) => {
    if (text === said) return;
    said = text;
    region.textContent = text;
  }, QUIET_MS);
  return (text) => speak(text.trim());
}

function delayed(act, pauseMs) {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...values), pauseMs);
  };
}

for (const form of document.querySelectorAll("form[data-launcher]")) start(form);
