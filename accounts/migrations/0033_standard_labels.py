import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0032_names_in_form_c")]

    operations = [
        migrations.AlterField(
            model_name="resourcepolicy",
            name="is_default",
            field=models.BooleanField(default=False, help_text="Default for new people."),
        ),
        migrations.AlterField(
            model_name="resourcepolicy",
            name="max_browsers",
            field=models.PositiveIntegerField(
                blank=True,
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(
                        1, "Allow at least one login, or close the account instead."
                    )
                ],
            ),
        ),
    ]
