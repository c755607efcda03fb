// Accelerators in the launcher: a chosen card says how many there can be, whether a part can be asked for, and whose
// machines these are. The server says the same without scripts, after "Check first".

import { format } from "./words.js";

export class DeviceChoice {
  constructor(form) {
    this.form = form;
    this.section = form.querySelector("[data-devices]");
    if (!this.section) return;
    this.range = this.section.querySelector("[data-device-slider] input");
    this.count = form.elements.device_count;
    this.range.addEventListener("input", () => this.lead());
    this.follow();
  }

  /** Something in the form changed: a card takes its group with it, a group takes a card of its own. */
  heed(target) {
    if (!this.section) return;
    const { resource_group: group } = this.form.elements;
    if (target.name === "device" && target.dataset.group && group) group.value = target.dataset.group;
    if (target.name === "device") this.count.value = target.value ? Number(this.count.value) || 1 : 0; // 0: none, whatever a preset says
    if (target.name === "device_as" && target.value === "part") this.#fillPart();
    if (target.name === "resource_group") this.#moveTo(target.value);
    this.follow();
  }

  /** The card of this key, or one of its slot in the chosen group; "" for none; undefined changes nothing. */
  choose(key) {
    if (!this.section || key === undefined) return;
    const group = this.form.elements.resource_group?.value;
    const cards = [...this.section.querySelectorAll('[name="device"]')];
    const here = cards.filter((card) => !card.dataset.group || !group || card.dataset.group === group);
    const card = here.find(({ value }) => value === key) ?? here.find(({ value }) => value.startsWith(`${key}:`));
    if (card) card.checked = true;
    this.follow();
  }

  /** Free devices as the server counts them now, by card. */
  update(words) {
    for (const element of this.section?.querySelectorAll("[data-device-words]") ?? []) {
      element.textContent = words[element.dataset.deviceWords] ?? element.textContent;
    }
  }

  follow() {
    const card = this.section.querySelector('[name="device"]:checked');
    if (!card?.value) return;
    const most = Math.max(1, Number(card.dataset.most) || 1);
    this.range.max = most;
    this.range.value = Math.round(Number(this.count.value)) || 1;
    this.range.closest(".slider").hidden = most === 1;
    const words = this.section.querySelector("[data-device-most]");
    words.textContent = format(words.dataset.words, { most });
    this.#offerPart(card.dataset.part);
  }

  lead() {
    this.count.value = this.range.value;
    this.count.dispatchEvent(new Event("input", { bubbles: true }));
  }

  #offerPart(words) {
    const [whole, part] = this.form.elements.device_as;
    part.disabled = !words && !part.checked;
    if (!words && part.checked) whole.checked = true;
    this.section.querySelector("[data-part-notice]").hidden = !words;
    this.section.querySelector("[data-part-words]").textContent = words;
  }

  /** A part of half the memory, unless something is typed. */
  #fillPart() {
    const { part_mem: mem, part_cores: cores } = this.form.elements;
    const card = this.section.querySelector('[name="device"]:checked');
    if (!mem.value && !cores.value) mem.value = card?.dataset.partMem ?? "";
  }

  #moveTo(group) {
    const cards = [...this.section.querySelectorAll('[name="device"]')];
    const chosen = cards.find((card) => card.checked);
    const own = cards.find((card) => card.value === chosen?.value && card.dataset.group === group);
    if (chosen?.value) (own ?? cards[0]).checked = true;
  }
}
