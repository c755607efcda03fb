# Turns a Debian base into the session image. Runs once, as root, in a container of the base, with this folder
# as the working directory; the machine's proxies, certificates and package servers are in the environment.
# A line that begins with "## " is shown to the person who waits.

echo "## Installing Debian packages: Python, git, vim, tmux, curl."
cat > /etc/dpkg/dpkg.cfg.d/berth <<'END'
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
path-include=/usr/share/locale/locale.alias
path-exclude=/usr/share/lintian/*
force-unsafe-io
END
apt-get update -q
apt-get upgrade -q -y
# iproute2, nftables, haproxy and socat are for Berth's helpers on machines, which run in this image.
apt-get install -q -y \
    ca-certificates curl git haproxy iproute2 less nftables openssh-client openssh-server procps \
    python-is-python3 python3 python3-pip socat tmux tzdata unzip vim xz-utils
rm -f /etc/ssh/ssh_host_*  # sessions of several containers serve SSH with keys of their own
rm -rf /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/log/apt /var/log/*.log

echo "## Installing Python packages: $(grep -c '^[a-z].*==' requirements.txt) pinned wheels."
# People install more into their home (pip falls back to it, since /usr/local is not theirs).
rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
pip install --progress-bar off --no-deps --require-hashes --only-binary :all: --requirement requirements.txt

echo "## Adding the user, the prompt and the settings of JupyterLab."
useradd --uid 1000 --user-group --home-dir /home/work --create-home --skel /dev/null --shell /bin/bash work
cat >> /etc/bash.bashrc <<'END'

# No \u here: a container may run as a user who has no name.
PS1='\[\e[1;32m\]work@\h\[\e[0m\]:\[\e[1;34m\]\w\[\e[0m\]\$ '
alias ls='ls --color=auto' ll='ls -lh' grep='grep --color=auto'
HISTCONTROL=ignoreboth
END
cp -R root/. /
chmod 755 /usr/local/bin/berth-program
