from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("agents", "0037_connections")]

    operations = [migrations.RemoveField(model_name="agent", name="tls_directory")]
