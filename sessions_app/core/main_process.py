"""Builds the main process of a session's container: runs the command and forwards the stop signal.

Engines signal one process only, and the container ends with it: a shell that runs `cd data &&
python3 train.py` would die of SIGTERM, and the program would be killed without a chance to save.
Processes started beside it (apps, notebook kernels, terminals, `berth exec`) are not even its
children.

So the engine stops a container with SIGURG, which programs ignore by default, and sends it to the
group of the main process (`ContainerSpec.stop_signal`). Two shells of that group handle it:

- A *signal forwarder* in the background, which sends SIGTERM to each process of the container
  once, whatever its group or session, and SIGCONT for stopped ones. Later stop signals, from a
  worker that starts over, do nothing.
- The *main process*, which runs the command in the foreground. (In the background the command and
  its children would ignore SIGINT; POSIX shells cannot undo that.) It outlives the command until
  nothing else runs, or the engine's grace period is over.

It works in any `sh` with `sleep` and /proc, forks nothing to send the signal, and does not need the
portal: an engine that shuts down in order stops containers the same way. Pure.
"""

STOP_SIGNAL = "SIGURG"

# The traps that do nothing keep `kill 0` and the like, by which scripts end or suspend their
# children, from ending or suspending these shells; their children get the signals as usual.
#
# The command substitution `$( … )` ends when the forwarder closes its standard output. It does so
# after it has set its traps: the command starts only when a stop signal can be forwarded.
#
# Not waited for: a shell at its prompt, which leads the session of a terminal (words 4 and 5 after
# the name in its stat) and ignores SIGTERM, number 15.
#
# Shells report on standard error how a program died ("Terminated"), which would appear in the log
# as output of the command. So the main shell's own standard error is /dev/null; the command gets
# the container's.
#
# At the session's limit of processes `sleep` cannot be started, and dash exits when a start fails.
# The trap on EXIT then keeps waiting, without pauses, as pauses need a process: the container may
# not end before its programs have saved.
_SCRIPT = """\
# Berth: runs the command ($1), and has every process told when the session ends.
unset TINI_KILL_PROCESS_GROUP
is_ending=
survived="HUP INT QUIT TERM USR1 USR2 PIPE ALRM TSTP TTIN TTOU"
trap is_ending=1 URG
trap : $survived
: "$( (
  trap 'trap "" URG; kill -TERM -1; kill -CONT -1; exit' URG
  trap : $survived
  exec >/dev/null 2>&1
  while :; do sleep 86400 & wait "$!"; done
) & )"
is_prompt() {
  [ "$4" = "$pid" ] && [ "$5" != 0 ] || return 1
  while read -r key mask; do
    case $key$mask in SigIgn:*[4567cdef]???) return 0;; esac
  done <"/proc/$pid/status"
  return 1
}
is_busy() {
  for place in /proc/[0-9]*; do
    pid=${place#/proc/}
    [ "$pid" != 1 ] && [ "$pid" != $$ ] && read -r line <"$place/stat" || continue
    set -- ${line##*) }
    [ "$1" = Z ] || is_prompt "$@" || return 0
  done
  return 1
}
exec 3>&2 2>/dev/null
[ "$is_ending" ] || ({run}) 2>&3 3>&-
status=$?
if [ "$is_ending" ]; then
  trap 'while is_busy; do :; done; exit "$status"' EXIT
  while is_busy; do sleep 0.1; done
fi
exit "$status"
"""


def main_process(run: str, *arguments: str) -> tuple[str, ...]:
    """Return the argv of a main process that runs `run` and exits with its exit code.

    `run` is trusted shell code; `arguments` are $1 and following.
    """
    return ("sh", "-c", _SCRIPT.replace("{run}", run), "sh", *arguments)
