# The walls around the networks of sessions (bridges bth*), on the machine that it runs on. Runs as root with
# CAP_NET_ADMIN in the machine's network; may be repeated: a table is replaced in one step, with no moment in between.
# A table of our own is out of reach for whoever writes to iptables; what one table rejects no other one lets in again.

# The machine's resolvers stay open for names: they may be the machine itself, or (in some clouds) link-local.
resolvers=$(sed -n 's/^nameserver  *\([0-9][0-9.]*\) *$/\1,/p' /etc/resolv.conf | tr -d '\n')

walls() {
    cat <<END
table inet berth
delete table inet berth
table inet berth {
    set resolvers {
        type ipv4_addr
        ${resolvers:+elements = { $resolvers \}}
    }

    # What clouds tell a machine about itself, keys included: link-local, and the places of Azure and Alibaba Cloud.
    set metadata {
        type ipv4_addr
        flags interval
        elements = { 169.254.0.0/16, 168.63.129.16, 100.100.100.200 }
    }

    # Engines of other machines: their API, what they say to each other, and relays.
    set engines {
        type inet_service
        flags interval
        elements = { 2375-2378, 4789, 4799, 7946 }
    }

    # To the machine itself: nothing but answers, so that the gateway reaches apps.
    chain input {
        type filter hook input priority -10
        iifname != "bth*" accept
        ct state established,related accept
        ip daddr @resolvers meta l4proto { tcp, udp } th dport 53 accept
        reject with icmpx type admin-prohibited
    }

    chain forward {
        type filter hook forward priority -10
        iifname != "bth*" accept
        ip daddr @resolvers meta l4proto { tcp, udp } th dport 53 accept
        ip daddr @metadata reject with icmpx type admin-prohibited
        ip6 daddr { fe80::/10, fd00:ec2::254 } reject with icmpx type admin-prohibited
        meta l4proto { tcp, udp } th dport @engines reject with icmpx type admin-prohibited
    }
}
END
}

# From one session to another. Engines see to this too; where the kernel cannot look up routes, they do alone.
between() {
    cat <<END
table inet berth {
    chain prerouting {
        type filter hook prerouting priority -150
        iifname != "bth*" accept
        fib daddr oifname "bth*" fib daddr . iif oif missing drop
        fib daddr oifname "docker0" drop
    }
}
END
}

{ walls; between; } | nft -f - || walls | nft -f - || exit

# What joined the bridges of sessions with other machines (overlay.sh), once its bridge is gone: left over if a process
# died between two removals, or the machine could not be reached meanwhile.
ip -o link show type vxlan | sed -n '/ master /d; s/^[0-9]*: \(btx[0-9a-f]*\)[:@].*/\1/p' | while read -r link; do
    ip link del "$link"
done
nft list tables inet | sed -n 's/^table inet \(btx[0-9a-f]*\)$/\1/p' | while read -r table; do
    [ -e "/sys/class/net/$table" ] || nft delete table inet "$table"
done
exit 0
