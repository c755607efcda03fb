"""Storage hosts of folders: the port in `base`, this machine's directories in `local`."""
