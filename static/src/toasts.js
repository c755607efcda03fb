// A toast (templates/includes/toast.html) goes when its time is over. The style sheet keeps the time, and stops it while
// somebody points at the toast or is in it.

export function startToasts() {
  document.addEventListener("animationend", ({ animationName, target }) => {
    if (animationName === "toast-time") target.closest("[data-toast]")?.remove();
  });
}
