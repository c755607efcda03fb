"""Browser and token logins: validity, required actions, trusted devices, impersonation,
revocation.
"""
