"""Shared code of all apps. Knows no term of Berth's domain but Actor and ResourceSlots."""
