"""Storage hosts: settings, health, and rights on them."""
