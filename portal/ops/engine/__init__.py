"""The container engine and the session image."""
