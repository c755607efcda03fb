"""Set-up of the container engine and of the session image."""
