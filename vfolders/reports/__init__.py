"""What fills storage: directories of a folder, totals by owner and host, their growth."""
