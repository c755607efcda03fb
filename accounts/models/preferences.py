"""Columns that a user chose for a list."""

from django.db import models

from accounts.models.people import User


class ListColumns(models.Model):
    """Which columns of one list a person wants to see: `shown` is {column: bool}; what is not in it is as usual."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    table = models.CharField(max_length=40)
    shown = models.JSONField(default=dict)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "table"), name="list_columns_once"),)

    def __str__(self) -> str:
        return f"columns of {self.table} for {self.user_id}"
