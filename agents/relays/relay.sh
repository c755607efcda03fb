# Run the relay at the address and port that the portal knows, or at all addresses if the machine does not have that
# one itself (address translation).
grep -qwF "$1" /proc/net/fib_trie || set -- '*' "$2"
BERTH_BIND="$1:$2" exec haproxy -db -f /opt/berth/relay.cfg
