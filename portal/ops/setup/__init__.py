"""Machine set-up: packages, accounts, environment file, assets."""
