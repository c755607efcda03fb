// Starts one object for each element that a selector finds, now and in what htmx brings later, and ends it
// when its element has left the page. The answer is for code that adds or removes such elements itself.

export function attach(selector, create) {
  const living = new Map();
  const start = (root) => {
    for (const element of [...(root.matches?.(selector) ? [root] : []), ...root.querySelectorAll(selector)]) {
      if (!living.has(element)) living.set(element, create(element));
    }
  };
  const end = () => {
    for (const [element, feature] of living) {
      if (element.isConnected) continue;
      feature.end();
      living.delete(element);
    }
  };
  start(document);
  document.body.addEventListener("htmx:load", (event) => start(event.target));
  document.body.addEventListener("htmx:afterSettle", end);
  addEventListener("pagehide", () => {
    for (const feature of living.values()) feature.end();
    living.clear();
  });
  addEventListener("pageshow", (event) => event.persisted && start(document));
  return { start, endGone: end, of: (element) => living.get(element) };
}
