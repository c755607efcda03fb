// htmx under a strict Content-Security-Policy, with the CSRF token, and with errors said in words.
import htmx from "htmx.org";
import { fromThisPage, isSignInPage, renewToken, tokenHeaders } from "./requests.js";
import { say } from "./say.js";
import { format, gettext } from "./words.js";

Object.assign(htmx.config, {
  allowEval: false,
  allowScriptTags: false,
  includeIndicatorStyles: false,
  selfRequestsOnly: true,
  scrollBehavior: "instant",
  historyCacheSize: 0,
  refreshOnHistoryMiss: true,
  // A refused form comes back as 422 with its marks; everything else that failed is said by sayWhatFailed.
  responseHandling: [
    { code: "204", swap: false },
    { code: "[23]..", swap: true },
    { code: "422", swap: true },
    { code: "...", swap: false, error: true },
  ],
});

export function startHtmx() {
  const body = document.body;
  body.addEventListener("htmx:configRequest", ({ detail }) => {
    Object.assign(detail.headers, fromThisPage({}));
    if (detail.verb !== "get") Object.assign(detail.headers, tokenHeaders());
  });
  body.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && isTimed(event.detail)) event.preventDefault();
  });
  body.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (isSignInPage(detail.xhr.responseURL)) {
      detail.shouldSwap = false;
      if (hasTyped()) say(gettext("You are signed out. Sign in, in another tab; what you typed here stays."), "bad");
      else location.reload();
    } else if (detail.shouldSwap) {
      forgetUntouchedFields(detail.target);
    }
  });
  body.addEventListener("htmx:responseError", ({ detail }) => {
    renewToken(detail.xhr);
    sayWhatFailed(detail);
  });
  body.addEventListener("htmx:sendError", ({ detail }) => {
    if (isAsked(detail)) say(gettext("The portal cannot be reached. Nothing was changed; try again in a moment."), "bad");
  });
}

/** A fragment that refreshes by itself fails silently: the connection banner says what is wrong. */
function isAsked({ requestConfig }) {
  const cause = requestConfig.triggeringEvent?.type ?? "";
  return !cause.startsWith("berth:") && cause !== "load" && !isTimed({ requestConfig });
}

/** A fragment that asks again every few seconds; nobody looks at it while the page is hidden. */
function isTimed({ requestConfig }) {
  return !requestConfig.triggeringEvent && requestConfig.elt.matches('[hx-trigger*="every "]');
}

/** Tells if a form of the content holds something that a reload would lose; filters and ticks of rows do not count. */
function hasTyped() {
  const forms = "#content form[method=post]:not([data-bulk])";
  const fields = document.querySelectorAll(`${forms} :is(input:not([type=hidden]), textarea, select)`);
  return [...fields].some((field) =>
    field.options
      ? isChosen(field)
      : field.value !== field.defaultValue || field.checked !== field.defaultChecked,
  );
}

/** Tells if another option is selected than the page came with: without a mark in it, a list shows its first one. */
function isChosen({ options, multiple, selectedIndex }) {
  const all = [...options];
  if (!multiple && !all.some((option) => option.defaultSelected)) return selectedIndex > 0;
  return all.some((option) => option.selected !== option.defaultSelected);
}

/** hx-preserve keeps a field by its id. Where nobody is in it or has changed it, it is to show what somebody else made of it. */
function forgetUntouchedFields(fragment) {
  for (const field of fragment.querySelectorAll("input[hx-preserve]")) {
    if (field !== document.activeElement && field.value === field.defaultValue) field.removeAttribute("id");
  }
}

function sayWhatFailed(detail) {
  if (!isAsked(detail)) return;
  const { status, responseText } = detail.xhr;
  say(messageIn(responseText) || format(gettext("The portal answered with status {status}."), { status }), "bad");
}

/** From the JSON of the REST API, or from an error page (templates/error_page.html). */
function messageIn(text) {
  try {
    const { message, hint } = JSON.parse(text);
    return [message, hint].filter(Boolean).join(" ");
  } catch {
    return new DOMParser().parseFromString(text, "text/html").querySelector("[data-error]")?.textContent.trim();
  }
}
