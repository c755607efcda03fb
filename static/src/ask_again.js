// An error page that will pass asks for its address again (templates/error_page.html), and gives way when that answers; so
// nobody loses their place on it meanwhile. Without scripts the whole page is fetched again.

export function startAskingAgain() {
  const seconds = Number(document.querySelector("[data-ask-again-s]")?.dataset.askAgainS);
  if (!seconds) return;
  const ask = async () => {
    const answer = await fetch(location.href, { cache: "no-store" }).catch(() => null);
    if (answer && answer.status !== 503) location.reload();
  };
  setInterval(ask, seconds * 1000);
}
