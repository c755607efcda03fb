"""Write a plan to the database: placements, devices and pending reasons."""
