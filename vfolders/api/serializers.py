"""Serializers of folders, directories and entries."""

from typing import Any

from rest_framework import serializers

from common.rest.input import InputSerializer, TextField
from vfolders.core.paths import display_name, is_addressable, parse_folder_name, parse_path
from vfolders.models import VFolder
from vfolders.storage.base import Entry, EntryKind

MAX_REFERENCE_LENGTH = 255


def check_directory_path(text: str) -> str:
    """Return `text` if it names a directory below a folder; one trailing slash is allowed.
    Raises UnsafePath.
    """
    parse_path(text.removesuffix("/"))
    return text


class FolderCreateInput(InputSerializer):
    name = TextField(
        check=parse_folder_name,
        help_text="Name of the folder; sessions mount it at /home/work/<name> by default.",
    )
    project = TextField(
        max_length=MAX_REFERENCE_LENGTH,
        required=False,
        allow_blank=True,
        default="",
        help_text="Project with which the folder is shared; empty: a folder of your own.",
    )
    host = TextField(
        max_length=MAX_REFERENCE_LENGTH,
        required=False,
        allow_blank=True,
        default="",
        help_text="Storage host; default: the default host, or another that policies allow.",
    )


class FolderOut(serializers.ModelSerializer[VFolder]):
    owner = serializers.EmailField(source="owner.email", default=None, allow_null=True)
    project = serializers.CharField(source="project.name", default=None, allow_null=True)
    domain = serializers.CharField(source="domain.name")
    host = serializers.CharField(source="host.name")
    is_size_whole = serializers.BooleanField(help_text="false if the folder is larger than was counted.")

    class Meta:
        model = VFolder
        fields = (
            "id", "name", "owner", "project", "domain", "host", "mode", "state", "created_at", "size_bytes", "measured_at",
            "is_size_whole",
        )  # fmt: skip
        read_only_fields = fields


class UsageOut(serializers.Serializer[Any]):
    size_bytes = serializers.IntegerField()
    file_count = serializers.IntegerField()
    is_complete = serializers.BooleanField(help_text="false if the folder is larger than was counted.")


class EntryOut(serializers.Serializer[Entry]):
    name = serializers.SerializerMethodField(
        help_text="Name on the disk; a replacement for display if `is_addressable` is false."
    )
    kind = serializers.ChoiceField(choices=[kind.value for kind in EntryKind])
    size_bytes = serializers.IntegerField()
    modified_at = serializers.DateTimeField()
    is_addressable = serializers.SerializerMethodField(
        help_text="false if the name is not UTF-8, so that it cannot be requested here. A session can "
        "rename it."
    )

    def get_name(self, entry: Entry) -> str:
        return entry.name if is_addressable(entry.name) else display_name(entry.name)

    def get_is_addressable(self, entry: Entry) -> bool:
        return is_addressable(entry.name)


class DirectoryOut(serializers.Serializer[Any]):
    path = serializers.CharField(allow_blank=True)
    entries = EntryOut(many=True)
    is_complete = serializers.BooleanField(help_text="false if there are more entries than are listed.")


class DirectoryCreateInput(InputSerializer):
    path = TextField(
        check=check_directory_path,
        help_text="Path relative to the folder; missing parent directories are created.",
    )
