# Program of the proof, run on a machine with the folder mounted: DIRECTORY WORD ANSWER UID:GID.
# Ends with 0: read and answered; 3: the word is missing; 4: another owner; else: an error.
[ "$(cat "$1/$2" 2>/dev/null)" = "$2" ] || exit 3
printf %s "$3" >"$1/$3" || exit 1
sync
owners=$(stat -c %u:%g "$1" "$1/$2" "$1/$3" | sort -u)
[ "$owners" = "$4" ] && exit 0
echo $owners, not $4
exit 4
