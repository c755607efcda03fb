"""Resource policies: who is limited to what."""
