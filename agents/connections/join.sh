#!/bin/sh
# Lets Berth use this machine's Docker engine as “@NAME@”. Run as root; running it twice does no harm.
set -eu

main() {
    [ "$(id -u)" = 0 ] || fail "Run this as root."
    command -v dockerd >/dev/null || fail "There is no Docker engine here. Install one first: https://docs.docker.com/engine/install/"
    command -v systemctl >/dev/null || fail "This machine has no systemd. Start dockerd with the options in /etc/docker/berth yourself."
    write_certificates
    write_settings
    write_unit
    # First without a restart: an engine that keeps containers running over its restart has to know it before.
    systemctl reload docker || true
    systemctl daemon-reload
    systemctl restart docker || fail "The engine did not start. See: journalctl -u docker. The former settings are in /etc/docker/daemon.json.before-berth."
    echo "The engine listens on port @PORT@. Berth's page turns green within seconds."
}

fail() {
    echo "$1" >&2
    exit 1
}

write_certificates() {
    mkdir -p /etc/docker/berth
    chmod 700 /etc/docker/berth
    umask 077
    echo '@CA@' >/etc/docker/berth/ca.pem
    echo '@CERT@' >/etc/docker/berth/cert.pem
    echo '@KEY@' >/etc/docker/berth/key.pem
    umask 022
}

# TLS with certificates on both sides; containers outlive a restart of the engine.
write_settings() {
    file=/etc/docker/daemon.json
    if [ ! -s "$file" ]; then
        echo '{}' >"$file"
    elif [ ! -e "$file.before-berth" ]; then
        cp -p "$file" "$file.before-berth"
    fi
    python=$(command -v python3 || command -v python || true)
    if [ -n "$python" ]; then
        "$python" - "$file" <<'PYTHON'
import json, os, sys
path = sys.argv[1]
with open(path) as file:
    settings = json.load(file)
home = "/etc/docker/berth/"
settings.update({"tls": True, "tlsverify": True, "tlscacert": home + "ca.pem", "tlscert": home + "cert.pem", "tlskey": home + "key.pem"})
settings["live-restore"] = True
settings.pop("hosts", None)  # they are in the unit
with open(path + ".new", "w") as file:
    json.dump(settings, file, indent=2)
os.replace(path + ".new", path)
PYTHON
    elif [ "$(tr -d ' \n' <"$file")" = '{}' ]; then
        cat >"$file" <<'JSON'
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
        fail "Without python3 this script does not change $file. Add tls, tlsverify, tlscacert, tlscert, tlskey (files in /etc/docker/berth) and live-restore to it."
    fi
}

# The unit names the socket on its command line, and the engine refuses addresses in both places.
write_unit() {
    mkdir -p /etc/systemd/system/docker.service.d
    engine=$(command -v dockerd)
    cat >/etc/systemd/system/docker.service.d/berth.conf <<UNIT
[Service]
ExecStart=
ExecStart=$engine -H fd:// -H tcp://0.0.0.0:@PORT@ --containerd=/run/containerd/containerd.sock
UNIT
}

main
