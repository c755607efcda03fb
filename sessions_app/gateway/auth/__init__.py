"""Who may reach an app or a terminal."""
