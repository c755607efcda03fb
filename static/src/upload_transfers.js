// Ways of files to the portal: one file, resumable by TUS, and many small ones in one request (a bundle).
// Each transfer has start(), pause() and cancel(), and tells by `on.progress(bytes)`, `on.done(path)`, `on.fail(refusal)`.
import { Upload } from "tus-js-client";
import { renewToken, tokenHeaders } from "./requests.js";
import { format, gettext } from "./words.js";

export const SMALL_BYTES = 2 ** 20;
const BUNDLE_FILES = 250;
const BUNDLE_BYTES = 16 * 2 ** 20;
const AT_CREATION_BYTES = 4 * 2 ** 20;
const WAITS_MS = [0, 1000, 2000, 4000, 8000, 15_000, 30_000, 30_000, 60_000];

/** Groups of small files for one request each. */
export function inBundles(files) {
  const groups = [];
  let bytes = Infinity;
  for (const item of files) {
    if (bytes + item.file.size > BUNDLE_BYTES || groups.at(-1).length === BUNDLE_FILES) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1).push(item);
    bytes += item.file.size;
  }
  return groups;
}

/** One file. `known` is an upload that the portal has begun to receive before, as the list of uploads tells it. */
export class FileTransfer {
  constructor({ url, item, choice, known, on }) {
    this.bytes = item.file.size;
    this.upload = new Upload(item.file, {
      endpoint: url,
      uploadUrl: known && `${url}${known.id}/`,
      metadata: { path: item.path, if_exists: choice, modified: String(item.file.lastModified) },
      storeFingerprintForResuming: false, // the portal knows what it has
      uploadDataDuringCreation: this.bytes <= AT_CREATION_BYTES,
      retryDelays: WAITS_MS,
      onBeforeRequest: (request) => {
        for (const [name, value] of Object.entries(tokenHeaders())) request.setHeader(name, value);
      },
      onAfterResponse: (request) => renewToken(request.getUnderlyingObject()),
      onShouldRetry: (error) => {
        const status = error.originalResponse?.getStatus() ?? 0;
        return status === 0 || status === 408 || status === 423 || status === 429 || status === 460 || status >= 500;
      },
      onProgress: (sent) => on.progress(sent),
      onSuccess: () => on.done(item.path),
      onError: (error) => on.fail(refusalOf(error.originalResponse?.getBody(), error.originalResponse?.getStatus())),
    });
  }

  start() {
    this.upload.start();
  }

  pause() {
    this.upload.abort();
  }

  /** Ends the transfer, and has the portal forget what came. */
  cancel() {
    this.upload.abort(true).catch(() => {}); // an upload that is gone already
  }
}

/** Many small files. What `onFiles` gets tells of each; a request that broke is sent again as a whole. */
export class BundleTransfer {
  constructor({ url, items, choice, on, onFiles }) {
    this.url = `${url}?if_exists=${choice}`;
    this.items = items;
    this.bytes = items.reduce((sum, { file }) => sum + file.size, 0);
    this.on = on;
    this.onFiles = onFiles;
  }

  start() {
    const request = (this.request = new XMLHttpRequest());
    const body = new Blob(this.items.flatMap(({ path, file }) => [`${JSON.stringify({ path, size: file.size })}\n`, file]));
    request.open("POST", this.url);
    for (const [name, value] of Object.entries(tokenHeaders())) request.setRequestHeader(name, value);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = ({ loaded, total }) => this.on.progress((loaded / total) * this.bytes);
    request.onload = () => this.answered(request);
    request.onerror = () => this.on.fail(refusalOf());
    request.send(body);
  }

  answered(request) {
    renewToken(request);
    if (request.status !== 200) {
      this.on.fail(refusalOf(request.responseText, request.status));
      return;
    }
    const { files, error } = JSON.parse(request.responseText);
    this.onFiles(files.map((result, index) => ({ ...result, item: this.items[index] })));
    this.items = this.items.slice(files.length);
    if (error) this.on.fail(refusalOf(JSON.stringify(error), 409));
    else this.on.done("");
  }

  pause() {
    this.request?.abort();
  }

  cancel() {
    this.request?.abort();
  }
}

/** {code, text} of an answer's body; without a status the connection broke. */
function refusalOf(body, status) {
  if (!status) return { code: "offline", text: gettext("The connection broke. What arrived is kept; try again.") };
  try {
    const { code, message, hint } = JSON.parse(body);
    return { code, text: [message, hint].filter(Boolean).join(" ") };
  } catch {
    return { code: "", text: format(gettext("The portal answered with status {status}."), { status }) };
  }
}
