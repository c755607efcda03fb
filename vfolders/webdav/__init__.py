"""WebDAV (RFC 4918, classes 1 and 2): folders as a network drive of file managers and programs."""
