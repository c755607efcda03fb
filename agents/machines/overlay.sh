# Joins the bridge of a session with its bridges on other machines by a VXLAN. Runs as root with CAP_NET_ADMIN in the
# machine's network; may be repeated. Set: LINK, BRIDGE, VNI, PORT, MTU, LOCAL, PEERS (addresses, separated by spaces).
set -eu

# Left over from an earlier attempt of the session, which had another number.
ip -d link show "$LINK" 2>/dev/null | grep -q "vxlan id $VNI " || ip link del "$LINK" 2>/dev/null || true
# In the bridge from its first moment on: network_isolation.sh removes links and tables of bridges that are gone.
[ -e "/sys/class/net/$LINK" ] ||
    ip link add "$LINK" master "$BRIDGE" type vxlan id "$VNI" dstport "$PORT" local "$LOCAL" ttl 16

# Frames of this session are taken from its own machines alone. A table of its own goes with the session.
nft -f - <<END
table inet $LINK
delete table inet $LINK
table inet $LINK {
    chain input {
        type filter hook input priority -20
        udp dport $PORT @th,96,24 $VNI ip saddr != { $(echo $PEERS | tr ' ' ',') } drop
    }
}
END

for peer in $PEERS; do
    bridge fdb show dev "$LINK" | grep -q "00:00:00:00:00:00 dst $peer " ||
        bridge fdb append 00:00:00:00:00:00 dev "$LINK" dst "$peer"
done
ip link set "$LINK" mtu "$MTU" master "$BRIDGE" up
