"""Rules of accounts: roles, authorization, limits, sign-in requirements. Pure."""
