// Passkeys and security keys: form[data-passkey] asks the browser for one and sends what it answers as the field
// `credential`. The options stand in data-options, or are fetched from data-options-url. Without this file the button
// stays hidden: there is no other way to use a passkey.
import { attach } from "./features.js";
import { gettext } from "./words.js";

class PasskeyForm {
  constructor(form) {
    this.form = form;
    this.button = form.querySelector("[data-passkey-button]");
    this.says = form.querySelector("[data-passkey-says]");
    if (!globalThis.PublicKeyCredential) {
      this.say(gettext("Passkeys work in a browser that knows them, over https or on this machine itself."));
      return;
    }
    this.button.hidden = false;
    this.ask = (event) => this.submit(event);
    form.addEventListener("submit", this.ask);
  }

  async submit(event) {
    event.preventDefault();
    this.button.disabled = true;
    this.say(gettext("Your browser asks for the passkey…"));
    try {
      const { publicKey } = await this.options();
      const credential = await (this.form.dataset.passkey === "create" ? create(publicKey, this.wantsAlone()) : get(publicKey));
      this.form.elements.credential.value = JSON.stringify(credential);
      this.form.submit();
    } catch (error) {
      this.button.disabled = false;
      this.say(sentenceFor(error));
    }
  }

  async options() {
    if (this.form.dataset.options) return JSON.parse(this.form.dataset.options);
    const answer = await fetch(this.form.dataset.optionsUrl, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return (await answer.json()).request_options;
  }

  wantsAlone() {
    return this.form.elements.passwordless?.checked ?? false;
  }

  say(sentence) {
    this.says.textContent = sentence;
  }

  end() {
    if (this.ask) this.form.removeEventListener("submit", this.ask);
  }
}

/** A new one. `isAlone`: it shall sign in by itself, so it stays in the device and asks for finger, face or PIN. */
async function create(options, isAlone) {
  const selection = { ...options.authenticatorSelection, residentKey: isAlone ? "required" : "discouraged", requireResidentKey: isAlone };
  if (isAlone) selection.userVerification = "required";
  const publicKey = {
    ...options,
    authenticatorSelection: selection,
    challenge: bytesOf(options.challenge),
    user: { ...options.user, id: bytesOf(options.user.id) },
    excludeCredentials: described(options.excludeCredentials),
  };
  const made = await navigator.credentials.create({ publicKey });
  return wrapped(made, {
    clientDataJSON: textOf(made.response.clientDataJSON),
    attestationObject: textOf(made.response.attestationObject),
    transports: made.response.getTransports?.() ?? [],
  });
}

async function get(options) {
  const publicKey = { ...options, challenge: bytesOf(options.challenge), allowCredentials: described(options.allowCredentials) };
  const found = await navigator.credentials.get({ publicKey });
  return wrapped(found, {
    clientDataJSON: textOf(found.response.clientDataJSON),
    authenticatorData: textOf(found.response.authenticatorData),
    signature: textOf(found.response.signature),
    userHandle: found.response.userHandle ? textOf(found.response.userHandle) : null,
  });
}

function wrapped(credential, response) {
  const id = textOf(credential.rawId);
  return { type: credential.type, id, rawId: id, response, clientExtensionResults: credential.getClientExtensionResults() };
}

function described(credentials) {
  return (credentials ?? []).map((each) => ({ ...each, id: bytesOf(each.id) }));
}

function bytesOf(base64url) {
  return Uint8Array.from(atob(base64url.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
}

function textOf(buffer) {
  const letters = Array.from(new Uint8Array(buffer), (byte) => String.fromCharCode(byte)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function sentenceFor(error) {
  if (error.name === "InvalidStateError") return gettext("This device has a passkey for your account already.");
  if (error.name === "NotAllowedError") return gettext("The browser gave no passkey: it was cancelled, took too long, or this device has none for this address.");
  if (error.name === "SecurityError") return gettext("Passkeys work over https or on this machine itself, under a name and not a number.");
  return gettext("That did not work. Load this page again and try once more.");
}

attach("form[data-passkey]", (form) => new PasskeyForm(form));
