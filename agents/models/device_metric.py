"""Tables of measurements of accelerators."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class DeviceValues(models.Model):
    """Values of the devices of a machine, as arrays in the order of `devices` (primary keys of
    `AgentDevice`). Null: not measured. `percent`: share of the time in which the device computed;
    `mem_bytes`: its used memory; both by all its users together.
    """

    devices = ArrayField(models.BigIntegerField())
    percent = ArrayField(models.SmallIntegerField(null=True))
    mem_bytes = ArrayField(models.BigIntegerField(null=True))
    watts = ArrayField(models.FloatField(null=True))
    celsius = ArrayField(models.SmallIntegerField(null=True))

    class Meta:
        abstract = True


class DeviceReading(DeviceValues):
    """Last measurement of the devices of a machine. `activity`: see `DeviceUse`.

    `processes`: for each device (its primary key as text) whose driver tells, the processes on it as
    [process id on the machine, used memory in bytes or null, percent or null]. `health`: for each
    device the values of its vendor's health source.
    """

    agent = models.OneToOneField(
        "agents.Agent", on_delete=models.CASCADE, primary_key=True, related_name="device_reading"
    )
    at = models.DateTimeField()
    activity = ArrayField(models.SmallIntegerField(null=True))
    processes = models.JSONField(default=dict)
    health = models.JSONField(default=dict, db_default={})

    def __str__(self) -> str:
        return f"devices of {self.agent_id} at {self.at}"


class DeviceMetric(DeviceValues):
    """Mean use of the devices of a machine over `span_s` from `at`; from a minute on also the maximum
    (`agents/metering/collector.py`).
    """

    pk = models.CompositePrimaryKey("agent_id", "span_s", "at")
    agent = models.ForeignKey(
        "agents.Agent", on_delete=models.CASCADE, related_name="device_metrics", db_index=False
    )
    span_s = models.PositiveSmallIntegerField()
    at = models.DateTimeField()
    percent_max = ArrayField(models.SmallIntegerField(null=True), null=True)
    mem_bytes_max = ArrayField(models.BigIntegerField(null=True), null=True)
    watts_max = ArrayField(models.FloatField(null=True), null=True)
    celsius_max = ArrayField(models.SmallIntegerField(null=True), null=True)

    class Meta:
        indexes = (models.Index(fields=("span_s", "at"), name="device_metric_by_age"),)

    def __str__(self) -> str:
        return f"devices of {self.agent_id} at {self.at}"
