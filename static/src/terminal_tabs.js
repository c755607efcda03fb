// Several shells in one page: [data-terminals] holds frames (templates/includes/terminal.html), of which one is shown,
// and a tab for each. A new frame is a copy of the first as the server wrote it.
import { format, gettext } from "./words.js";

export class TerminalTabs {
  /** `blank` is a frame without a shell, `shells` what attach() gave for the frames. */
  constructor(place, blank, shells) {
    this.place = place;
    this.shells = shells;
    this.list = place.querySelector("[data-terminal-tabs]");
    this.made = 0;
    const add = place.querySelector("[data-terminal-add]");
    add.hidden = false;
    add.addEventListener("click", () => this.add(blank.cloneNode(true)));
    this.list.addEventListener("keydown", (event) => this.moveByKey(event));
    this.add(place.querySelector("[data-terminal-url]"));
  }

  get tabs() {
    return [...this.list.children];
  }

  add(frame) {
    this.made += 1;
    const name = format(gettext("Shell {number}"), { number: this.made });
    const tab = Object.assign(document.createElement("button"), { type: "button", id: `tab-${this.made}`, textContent: name });
    tab.setAttribute("role", "tab");
    frame.id = `shell-${this.made}`;
    frame.setAttribute("role", "tabpanel");
    frame.setAttribute("aria-label", name);
    tab.setAttribute("aria-controls", frame.id);
    tab.addEventListener("click", () => this.show(tab));
    frame.querySelector("[data-terminal-close]").addEventListener("click", () => this.close(tab));
    this.list.append(tab);
    if (!frame.isConnected) this.place.append(frame);
    this.show(tab);
    this.shells.start(frame);
  }

  show(chosen) {
    for (const tab of this.tabs) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
      this.frameOf(tab).hidden = tab !== chosen;
      this.frameOf(tab).querySelector("[data-terminal-close]").hidden = this.tabs.length === 1;
    }
    this.shells.of(this.frameOf(chosen))?.focus();
  }

  close(tab) {
    const neighbour = tab.nextElementSibling ?? tab.previousElementSibling;
    this.frameOf(tab).remove();
    tab.remove();
    this.shells.endGone();
    this.show(neighbour);
  }

  moveByKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const { tabs } = this;
    const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
    this.show(next);
    next.focus();
  }

  frameOf(tab) {
    return document.getElementById(tab.getAttribute("aria-controls"));
  }
}
