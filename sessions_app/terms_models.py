"""That what people may ask for was changed."""

from django.db import models


class TermsChange(models.Model):
    """A transaction that changed a row by which requests are judged (`terms`). Triggers of these tables write it; nobody else does."""

    transaction_id = models.BigIntegerField(primary_key=True)
    noted_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"by transaction {self.transaction_id}"
