# Copies the hook library $1 of this image to /share, where containers see it as $2, with the files that
# activate it, and the limits $3 (lines of NAME=VALUE), which precede a program's own variables.
set -eu
found=$(find / -xdev -name "$1" ! -path "/share/*" 2>/dev/null | head -n 1)
[ -n "$found" ] || { echo "The image has no $1."; exit 3; }
cp "$found" "/share/$1"
chmod 0555 "/share/$1"
echo "$2/$1" >/share/ld.so.preload
echo "$3" >/share/overrideEnv
