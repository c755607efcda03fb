"""Page for a browser whose request head is too large because of its cookies: deletes them and
reloads.

A page at another port of the host, or at a sibling host, can fill the browser's cookie jar so that
every request here is refused. Session cookies are HttpOnly: the page cannot see them, and they
stay. HttpOnly cookies set by apps are bounded elsewhere (sessions_app.gateway.auth.cookies).
"""

import base64
import hashlib

_SCRIPT = """
(() => {
  const names = new Set(document.cookie.split(";").filter((pair) => pair.trim())
    .map((pair) => pair.includes("=") ? pair.split("=")[0].trim() : ""));
  const parts = location.pathname.split("/").slice(1);
  const paths = ["/", ...parts.flatMap((_, index) => {
    const path = "/" + parts.slice(0, index + 1).join("/");
    return [path, path + "/"];
  })];
  const labels = location.hostname.split(".");
  const domains = ["", ...labels.map((_, index) => "; Domain=" + labels.slice(index).join("."))];
  for (const name of names) for (const path of paths) for (const domain of domains)
    document.cookie = name + "=; Max-Age=0; Path=" + path + domain;
  // Browsers take a moment to forget, so it may need more than one try.
  const [tries, since] = (sessionStorage.getItem("berth-crowded") || "0 0").split(" ").map(Number);
  const isNew = Date.now() - since > 30000;
  if (isNew || tries < 4) {
    sessionStorage.setItem("berth-crowded", isNew ? "1 " + Date.now() : tries + 1 + " " + since);
    setTimeout(() => location.reload(), 250);
  } else {
    document.getElementById("stuck").hidden = false;
  }
})();
"""
_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; font: 16px/1.5 system-ui, sans-serif;
  background: light-dark(#f5f8f8, #10191c); color: light-dark(#17323a, #e3eeee); }
main { max-width: 30rem; padding: 2rem; text-align: center; }
h1 { font-size: 1.25rem; font-weight: 600; }
"""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


BODY = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Too many cookies</title><style>{_STYLE}</style></head>
<body><main role="status"><h1>Your browser brings too many cookies along</h1>
<p>Another page at this address has filled them up. They are thrown away now; you stay signed in.</p>
<p id="stuck" hidden>Some are still there. Clear the cookies of this address in your browser's settings, then open it
again.</p>
<noscript><p>Clear the cookies of this address in your browser's settings, then open it again.</p></noscript>
</main><script>{_SCRIPT}</script></body></html>
""".encode()
HEADERS = (
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        f"default-src 'none'; script-src {_hash(_SCRIPT)}; style-src {_hash(_STYLE)}; frame-ancestors 'none'".encode(),
    ),
    (b"cache-control", b"no-store"),
)
