"""The transition functions: only they write the status of a session."""
