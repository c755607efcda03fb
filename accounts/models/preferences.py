"""Column choices of users for lists."""

from django.db import models

from accounts.models.people import User


class ListColumns(models.Model):
    """A user's columns of one list. `shown` is {column: bool}; missing columns use their default."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    table = models.CharField(max_length=40)
    shown = models.JSONField(default=dict)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "table"), name="list_columns_once"),)

    def __str__(self) -> str:
        return f"columns of {self.table} for {self.user_id}"
