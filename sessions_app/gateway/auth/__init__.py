"""Authentication and access control for apps and terminals."""
