"""Storage hosts of folders: the port in `base`, its implementations in `backends`."""
