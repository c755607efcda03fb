"""Runs a program that ends with its parent process: `child.py SIGNAL UID GID PROGRAM [ARGUMENT…]`.

Run by path with the same Python. It changes the account (-1 keeps it), asks the kernel to send
SIGNAL when the parent dies in any way, and executes PROGRAM. The account comes first: changing it
would clear that request.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    number, uid, gid = (int(text) for text in sys.argv[1:4])
    parent = os.getppid()
    if uid != -1:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        os.umask(0o077)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("The supervisor died before this process started.")
    os.execv(sys.argv[4], sys.argv[4:])


if __name__ == "__main__":
    main()
