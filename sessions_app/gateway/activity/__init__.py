"""Detection and recording of user activity in sessions."""
