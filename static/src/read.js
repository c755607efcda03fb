// A link of a notification marks it as read when it is followed; without this file its button does.
import { csrfToken } from "./requests.js";

export function startReading() {
  for (const kind of ["click", "auxclick"]) {
    document.addEventListener(kind, ({ target }) => {
      const link = target.closest("a[data-read-url]");
      if (link) fetch(link.dataset.readUrl, { method: "POST", keepalive: true, redirect: "manual", headers: { "X-CSRFToken": csrfToken() } });
    });
  }
}
