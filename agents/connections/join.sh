#!/bin/sh
# Lets Berth use this machine's Docker engine as “@NAME@”. Run as root; running it twice does no harm.
set -eu

settings=/etc/docker/daemon.json
unit=/etc/systemd/system/docker.service.d/berth.conf

main() {
    [ "$(id -u)" = 0 ] || fail "Run this as root."
    engine=$(command -v dockerd) || fail "There is no Docker engine here. Install one first: https://docs.docker.com/engine/install/"
    write_certificates
    saved=$(mktemp -d)
    trap 'rm -rf "$saved"' EXIT
    keep "$settings" "$unit"
    write_settings
    if ! command -v systemctl >/dev/null; then
        echo "This machine has no systemd. Restart its engine with: $engine -H unix:///var/run/docker.sock -H tcp://0.0.0.0:@PORT@"
        exit
    fi
    write_unit
    # First without a restart: an engine that keeps containers running over its restart has to know it before.
    systemctl reload docker || true
    systemctl daemon-reload
    if ! systemctl restart docker; then
        put_back "$settings" "$unit"
        systemctl daemon-reload
        systemctl restart docker || true
        fail "The engine did not start with Berth's settings, so its former ones were put back. See: journalctl -u docker."
    fi
    echo "The engine listens on port @PORT@. Berth's page turns green within seconds."
}

fail() {
    echo "$1" >&2
    exit 1
}

keep() {
    for file in "$@"; do
        if [ -e "$file" ]; then cp -p "$file" "$saved/"; fi
    done
}

put_back() {
    for file in "$@"; do
        before="$saved/$(basename "$file")"
        if [ -e "$before" ]; then cp -p "$before" "$file"; else rm -f "$file"; fi
    done
}

write_certificates() {
    umask 077
    mkdir -p /etc/docker/berth
    chmod 700 /etc/docker/berth
    echo '@CA@' >/etc/docker/berth/ca.pem
    echo '@CERT@' >/etc/docker/berth/cert.pem
    echo '@KEY@' >/etc/docker/berth/key.pem
    umask 022
}

# TLS with certificates on both sides; containers outlive a restart of the engine.
write_settings() {
    if [ ! -s "$settings" ]; then
        echo '{}' >"$settings"
    elif [ ! -e "$settings.before-berth" ]; then
        cp -p "$settings" "$settings.before-berth"
    fi
    python=$(command -v python3 || command -v python || true)
    if [ -n "$python" ]; then
        "$python" - "$settings" <<'PYTHON' || fail "$settings was not changed. It has to be a JSON object."
import json, os, sys
path = sys.argv[1]
with open(path) as file:
    settings = json.load(file)
home = "/etc/docker/berth/"
settings.update({"tls": True, "tlsverify": True, "tlscacert": home + "ca.pem", "tlscert": home + "cert.pem", "tlskey": home + "key.pem"})
settings["live-restore"] = True
settings.pop("hosts", None)  # they are on the command line
with open(path + ".new", "w") as file:
    json.dump(settings, file, indent=2)
os.replace(path + ".new", path)
PYTHON
    elif [ "$(tr -d ' \n' <"$settings")" = '{}' ]; then
        cat >"$settings" <<'JSON'
{
  "tls": true,
  "tlsverify": true,
  "tlscacert": "/etc/docker/berth/ca.pem",
  "tlscert": "/etc/docker/berth/cert.pem",
  "tlskey": "/etc/docker/berth/key.pem",
  "live-restore": true
}
JSON
    else
        fail "Without python3 this script does not change $settings. Add tls, tlsverify, tlscacert, tlscert, tlskey (files in /etc/docker/berth) and live-restore to it."
    fi
}

# The unit names the socket on its command line, and the engine refuses addresses in both places.
# DOCKER_OPTS are those of Debian's package; elsewhere the variable is empty.
write_unit() {
    mkdir -p "$(dirname "$unit")"
    cat >"$unit" <<UNIT
[Service]
ExecStart=
ExecStart=$engine -H fd:// -H tcp://0.0.0.0:@PORT@ --containerd=/run/containerd/containerd.sock \$DOCKER_OPTS
UNIT
}

main
