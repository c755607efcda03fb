"""Browser logins: required actions, trusted devices, impersonation, revocation."""
