"""Messages for each reason to wait."""
