"""Page sizes of REST lists."""

USUAL_SIZE, MOST_A_PAGE = 50, 200
