"""Start and URLs of the apps in sessions."""
