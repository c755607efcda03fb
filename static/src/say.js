// Short notices in the page, in the same form as the server's messages (templates/includes/notice.html).

const TONES = { good: "circle-check", bad: "alert-circle", busy: "info-circle" };

/** Shows `text` at the top of the content; `tone` is good, bad or busy. A repeated text is shown once. */
export function say(text, tone = "busy") {
  const place = document.getElementById("messages");
  if (!place || [...place.querySelectorAll(".notice-text")].some((shown) => shown.textContent === text)) return;
  const template = document.getElementById("notice-template");
  const notice = template.content.firstElementChild.cloneNode(true);
  notice.classList.add(`is-${tone}`);
  const use = notice.querySelector("use");
  use.setAttribute("href", use.getAttribute("href").replace(/#.*/, `#${TONES[tone]}`));
  notice.querySelector(".notice-text").textContent = text;
  place.append(notice);
}
