"""Images on machines: brought there when they are missing, removed when nobody uses them."""
