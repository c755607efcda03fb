// Uploads: files chosen or dropped on a form[data-upload-url] go one by one as PUT <url><name>, with progress.
// Without this file the form posts them as an ordinary form does.
import { attach } from "./features.js";
import { renewToken, tokenHeaders } from "./requests.js";
import { format, gettext } from "./words.js";

class UploadForm {
  constructor(form) {
    this.form = form;
    this.input = form.querySelector('input[type="file"]');
    this.list = form.querySelector("[data-upload-list]");
    this.queue = Promise.resolve();
    this.unfinished = 0;
    form.querySelector('[type="submit"]')?.setAttribute("hidden", "");
    this.input.addEventListener("change", () => this.accept([...this.input.files]));
    form.addEventListener("dragover", (event) => this.over(event, true));
    form.addEventListener("dragleave", (event) => this.over(event, false));
    form.addEventListener("drop", (event) => this.drop(event));
    this.warn = (event) => this.unfinished && event.preventDefault();
    addEventListener("beforeunload", this.warn);
  }

  over(event, isOver) {
    event.preventDefault();
    this.form.classList.toggle("is-over", isOver);
  }

  drop(event) {
    this.over(event, false);
    const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
    const isDirectory = (item) => item.webkitGetAsEntry?.()?.isDirectory;
    for (const item of items.filter(isDirectory)) this.row(item.webkitGetAsEntry().name).fail(gettext("Drop files; a whole directory cannot be uploaded yet."));
    this.accept(items.filter((item) => !isDirectory(item)).map((item) => item.getAsFile()));
  }

  accept(files) {
    for (const file of files) {
      const row = this.row(file.name);
      this.unfinished += 1;
      this.queue = this.queue.then(() => this.send(file, row)).finally(() => (this.unfinished -= 1));
    }
    this.queue = this.queue.then(() => this.announce());
    this.input.value = "";
  }

  send(file, row) {
    return new Promise((resolve) => {
      const request = new XMLHttpRequest();
      request.open("PUT", this.form.dataset.uploadUrl + encodeURIComponent(file.name));
      for (const [name, value] of Object.entries(tokenHeaders())) request.setRequestHeader(name, value);
      request.setRequestHeader("Content-Type", "application/octet-stream");
      request.upload.onprogress = ({ loaded, total }) => row.progress(loaded, total);
      request.onload = () => {
        renewToken(request);
        if (request.status < 300) row.done();
        else row.fail(refusalIn(request));
      };
      request.onerror = () => row.fail(gettext("The connection broke. Nothing was kept of this file; upload it again."));
      request.onloadend = resolve;
      request.send(file);
    });
  }

  announce() {
    document.body.dispatchEvent(new CustomEvent("berth:folder-changed"));
  }

  row(name) {
    const item = document.createElement("li");
    const label = Object.assign(document.createElement("span"), { className: "upload-name", textContent: name });
    const words = Object.assign(document.createElement("span"), { className: "text-secondary number", textContent: gettext("waiting") });
    const bar = Object.assign(document.createElement("progress"), { max: 1, value: 0 });
    bar.setAttribute("aria-label", format(gettext("Upload of {file}"), { file: name }));
    item.append(label, words, bar);
    this.list.append(item);
    return {
      progress: (loaded, total) => {
        bar.value = total ? loaded / total : 1;
        words.textContent = loaded === total ? gettext("storing…") : `${Math.floor(bar.value * 100)} %`;
      },
      done: () => {
        bar.remove();
        words.textContent = gettext("done");
      },
      fail: (message) => {
        bar.remove();
        words.textContent = gettext("not uploaded");
        item.append(Object.assign(document.createElement("span"), { className: "is-bad", textContent: message }));
      },
    };
  }

  end() {
    removeEventListener("beforeunload", this.warn);
  }
}

function refusalIn(request) {
  try {
    const { message, hint } = JSON.parse(request.responseText);
    return [message, hint].filter(Boolean).join(" ");
  } catch {
    return format(gettext("The portal answered with status {status}."), { status: request.status });
  }
}

attach("form[data-upload-url]", (form) => new UploadForm(form));
