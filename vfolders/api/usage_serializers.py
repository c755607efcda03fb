"""Serializers of quotas, limits, sizes of directories and totals."""

from typing import Any

from rest_framework import serializers

from accounts.core.limits import Level, StorageLevel
from common.rest.input import InputSerializer
from common.values.resources import MAX_AMOUNT
from vfolders.core.directory_sizes import Age
from vfolders.core.paths import display_name, is_addressable
from vfolders.models import StorageHost

LEVELS = [level.value for level in (Level.DOMAIN, Level.PROJECT, Level.USER, *StorageLevel)]


class FolderQuotaInput(InputSerializer):
    quota_bytes = serializers.IntegerField(
        allow_null=True,
        min_value=1,
        max_value=MAX_AMOUNT,
        help_text="Largest size of the folder in bytes, at most what the limits above it allow; null removes the quota.",
    )


class HostLimitsInput(InputSerializer):
    max_bytes = serializers.IntegerField(
        allow_null=True, min_value=0, max_value=MAX_AMOUNT, help_text="Of all folders on the host together."
    )
    max_user_bytes = serializers.IntegerField(
        allow_null=True, min_value=0, max_value=MAX_AMOUNT, help_text="Of one user's folders on the host."
    )
    max_project_bytes = serializers.IntegerField(
        allow_null=True, min_value=0, max_value=MAX_AMOUNT, help_text="Of one project's folders on the host."
    )


class HostLimitsOut(serializers.ModelSerializer[StorageHost]):
    class Meta:
        model = StorageHost
        fields = ("id", "name", "max_bytes", "max_user_bytes", "max_project_bytes")
        read_only_fields = fields


class ByteLimitOut(serializers.Serializer[Any]):
    level = serializers.ChoiceField(choices=LEVELS)
    scope = serializers.CharField(
        help_text="Name of the domain, project, host or folder; e-mail of the user."
    )
    limit_bytes = serializers.IntegerField(source="value")
    used_bytes = serializers.IntegerField(source="used")
    left_bytes = serializers.IntegerField(source="left")


class HostPartOut(serializers.Serializer[Any]):
    host = serializers.CharField()
    used_bytes = serializers.IntegerField()
    folder_count = serializers.IntegerField()
    limit_bytes = serializers.IntegerField(allow_null=True)


class StorageStatusOut(serializers.Serializer[Any]):
    used_bytes = serializers.IntegerField(help_text="Of your own folders together.")
    folder_count = serializers.IntegerField()
    most_folders = serializers.IntegerField(allow_null=True, help_text="null: unlimited.")
    limits = ByteLimitOut(many=True)
    hosts = HostPartOut(many=True)


class DirectorySizeOut(serializers.Serializer[Any]):
    name = serializers.SerializerMethodField()
    size_bytes = serializers.IntegerField()
    file_count = serializers.IntegerField()
    is_addressable = serializers.SerializerMethodField(
        help_text="false if the name is not UTF-8, so that it cannot be requested here."
    )

    def get_name(self, directory: Any) -> str:
        return directory.name if is_addressable(directory.name) else display_name(directory.name)

    def get_is_addressable(self, directory: Any) -> bool:
        return is_addressable(directory.name)


class SumOut(serializers.Serializer[Any]):
    name = serializers.CharField(allow_blank=True)
    size_bytes = serializers.IntegerField()
    file_count = serializers.IntegerField()


class AgeOut(serializers.Serializer[Any]):
    name = serializers.ChoiceField(
        choices=[age.value for age in Age], help_text="Time since the last change of the files."
    )
    size_bytes = serializers.IntegerField()
    file_count = serializers.IntegerField()


class DirectoryReportOut(serializers.Serializer[Any]):
    """Sizes below a directory, of the last count; see `counted_at` and `is_awaited`."""

    path = serializers.SerializerMethodField()
    counted_at = serializers.DateTimeField(allow_null=True, help_text="null: never counted so far.")
    is_whole = serializers.BooleanField(help_text="false if counting ended at a limit.")
    is_awaited = serializers.BooleanField(help_text="true while a requested count is under way.")
    problem = serializers.CharField(allow_blank=True, help_text="Why the last count failed.")
    size_bytes = serializers.IntegerField(source="directory.size_bytes", default=None, allow_null=True)
    file_count = serializers.IntegerField(source="directory.file_count", default=None, allow_null=True)
    own_bytes = serializers.IntegerField(
        source="directory.own_bytes", default=None, allow_null=True,
        help_text="In none of `directories`: files of this directory, and directories too small to be listed.",
    )  # fmt: skip
    own_count = serializers.IntegerField(source="directory.own_count", default=None, allow_null=True)
    directories = serializers.SerializerMethodField(help_text="The biggest first, at most 1,000.")
    suffixes = serializers.SerializerMethodField(help_text="Of the whole folder, the biggest first.")
    ages = serializers.SerializerMethodField(help_text="Of the whole folder.")

    def get_path(self, report: Any) -> str:
        return "/".join(report.path)

    def get_directories(self, report: Any) -> DirectorySizeOut(many=True):  # type: ignore[valid-type]
        found = report.directory.directories[:MOST_DIRECTORIES] if report.directory else []
        return DirectorySizeOut(found, many=True).data

    def get_suffixes(self, report: Any) -> SumOut(many=True):  # type: ignore[valid-type]
        return SumOut(report.tree.suffixes[:MOST_SUFFIXES] if report.tree else [], many=True).data

    def get_ages(self, report: Any) -> AgeOut(many=True):  # type: ignore[valid-type]
        return AgeOut(report.tree.ages if report.tree else [], many=True).data


MOST_DIRECTORIES = 1_000
MOST_SUFFIXES = 20


class TotalOut(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="pk")
    name = serializers.CharField(source="__str__")
    used_bytes = serializers.IntegerField()
    limit_bytes = serializers.IntegerField(allow_null=True, help_text="null: unlimited.")
    folder_count = serializers.IntegerField()
    growth_bytes = serializers.IntegerField(help_text="Since 30 days ago, or since the first count of a day.")
