"""PostgreSQL: connections, fields, locks, bulk statements."""
