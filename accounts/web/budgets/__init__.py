"""Pages of budgets and prices."""
