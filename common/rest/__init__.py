"""REST in general: errors, pagination, parsers, content types, idempotency, OpenAPI."""
