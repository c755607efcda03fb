// What every request to the portal needs.

const tokenOfPage = () => document.querySelector('meta[name="csrf-token"]');

export function csrfToken() {
  return tokenOfPage()?.content ?? "";
}

/** The id of the person for whom this page was made, "" of nobody. */
export function openedBy() {
  return tokenOfPage()?.dataset.openedBy ?? "";
}

/** The headers of a request that changes something. */
export function tokenHeaders() {
  return { "X-CSRFToken": csrfToken(), "X-Berth-Opened-By": openedBy() };
}

/** A refusal because the sign-in changed brings a new token (common/returned_forms.py); nothing is sent again by itself. */
export function renewToken(request) {
  const token = request.getResponseHeader("X-Berth-Form-Token");
  if (!token) return;
  tokenOfPage().content = token;
  for (const input of document.querySelectorAll('input[name="csrfmiddlewaretoken"]')) input.value = token;
}

/** `headers`, and whose portal this page shows: the server refuses to mix it with another's. */
export function fromThisPage(headers) {
  const { viewing } = document.body.dataset;
  return viewing === undefined ? headers : { ...headers, "X-Berth-Viewing": viewing };
}

/** Whether an answer came from the sign-in page, because the person's login has ended meanwhile. */
export function isSignInPage(url) {
  const signIn = document.body.dataset.signInUrl;
  return Boolean(signIn && url && new URL(url, location.href).pathname === signIn && location.pathname !== signIn);
}

/** Waits that grow from 1 s to 15 s, with some chance so that many pages do not knock at once. */
export function backOff(attempt) {
  return Math.min(15_000, 1000 * 2 ** attempt) * (0.75 + Math.random() / 2);
}
