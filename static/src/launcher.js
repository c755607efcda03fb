// The launcher works as a plain form. This adds the usual sizes, and keeps what was chosen in the address, so that it
// can be sent to somebody or kept as a bookmark.

const NOT_IN_ADDRESS = new Set(["csrfmiddlewaretoken", "environment"]); // variables may hold secrets

function start(form) {
  const sizes = [...form.querySelectorAll("[data-size-cpu]")];
  for (const size of sizes) size.addEventListener("click", () => choose(form, size));
  form.addEventListener("input", () => mark(form, sizes));
  form.addEventListener("input", () => keepInAddress(form));
  form.addEventListener("input", ({ target }) => unmark(target));
  mark(form, sizes);
}

function choose(form, size) {
  form.elements.cpu.value = size.dataset.sizeCpu;
  form.elements.mem.value = size.dataset.sizeMem;
  form.elements.mem.dispatchEvent(new Event("input", { bubbles: true }));
}

function mark(form, sizes) {
  const { cpu, mem } = form.elements;
  for (const size of sizes) {
    const isChosen = cpu.value === size.dataset.sizeCpu && mem.value === size.dataset.sizeMem;
    size.setAttribute("aria-pressed", String(isChosen));
  }
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
  history.replaceState(null, "", `?${new URLSearchParams(chosen)}`);
}

for (const form of document.querySelectorAll("form[data-launcher]")) start(form);
