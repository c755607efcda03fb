// The launcher: size buttons fill the fields, and the fields of batch sessions show only for these.
import { attach } from "./features.js";

attach("[data-launcher]", (form) => {
  const showBatch = () => {
    for (const part of form.querySelectorAll("[data-batch-only]")) part.hidden = form.elements.type.value !== "batch";
  };
  const listening = new AbortController();
  const { signal } = listening;
  form.addEventListener("change", showBatch, { signal });
  form.addEventListener("click", fillSize, { signal });
  showBatch();
  return { end: () => listening.abort() };

  function fillSize({ target }) {
    const button = target.closest("[data-size-cpu]");
    if (!button) return;
    form.elements.cpu.value = button.dataset.sizeCpu;
    form.elements.mem.value = button.dataset.sizeMem;
    form.dispatchEvent(new Event("change", { bubbles: true }));
  }
});
