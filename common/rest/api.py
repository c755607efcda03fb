"""What every REST view shares: the actor, pages of results, and errors as {code, message, hint, fields}."""

USUAL_SIZE, MOST_A_PAGE = 50, 200
