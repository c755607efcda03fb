"""Shared parts of REST: errors, pagination, parsers, content types, idempotency, OpenAPI."""
