"""Files and logs of containers."""
