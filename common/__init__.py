"""Floor 0: what every room needs and no room owns. Knows no domain word but Actor and ResourceSlots."""
