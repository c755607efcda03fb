"""Page sizes of REST lists."""

DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE = 50, 200
