"""Pure rules of accounts: roles, authorization, limits, allow-lists, budgets, sign-in
requirements.
"""
