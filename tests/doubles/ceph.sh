#!/bin/sh
# Starts a Ceph cluster of one monitor, disk (a file) and metadata server in the directory $1, with the
# monitor at port $2. Prints nothing; the processes are children, which end with this program.
set -eu
cd "$1"
port=$2
export CEPH_CONF="$1/ceph.conf"
disk=$(cat /proc/sys/kernel/random/uuid)
cat >ceph.conf <<END
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = v1:127.0.0.1:$port
keyring = $1/admin.keyring
run dir = $1
admin socket =
pid file =
log file = $1/\$name.log
mon cluster log file = $1/cluster.log
crash dir = $1
osd pool default size = 1
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon data = $1/mon
mds data = $1/mds
osd data = $1/osd
osd memory target = 939524096
bluestore block size = 2147483648
ms bind msgr2 = false
END
mkdir mon mds osd
ceph-authtool --create-keyring mon.keyring --gen-key -n mon. --cap mon 'allow *' >/dev/null
ceph-authtool --create-keyring admin.keyring --gen-key -n client.admin \
    --cap mon 'allow *' --cap osd 'allow *' --cap mds 'allow *' --cap mgr 'allow *' >/dev/null
ceph-authtool mon.keyring --import-keyring admin.keyring >/dev/null
monmaptool --create --addv a "v1:127.0.0.1:$port" --fsid "$(sed -n 's/^fsid = //p' ceph.conf)" monmap >/dev/null
ceph-mon --mkfs -i a --monmap monmap --keyring mon.keyring
pids=
trap 'kill $pids 2>/dev/null; wait' EXIT
trap exit TERM INT
ceph-mon -f -i a &
pids="$pids $!"
ceph osd new "$disk" >/dev/null
ceph auth get-or-create osd.0 mon 'allow profile osd' mgr 'allow profile osd' osd 'allow *' >osd/keyring
ceph-osd --mkfs -i 0 --osd-uuid "$disk" --keyring osd/keyring
ceph-osd -f -i 0 --keyring osd/keyring &
pids="$pids $!"
ceph osd pool create meta 8 >/dev/null
ceph osd pool create data 8 >/dev/null
ceph fs new files meta data >/dev/null
ceph auth get-or-create mds.a mon 'profile mds' mgr 'profile mds' mds 'allow *' osd 'allow *' >mds/keyring
ceph-mds -f -i a --keyring mds/keyring &
pids="$pids $!"
until ceph mds stat | grep -q up:active; do :; done
touch ready
wait
