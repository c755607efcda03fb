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
    name = TextField(check=parse_folder_name, help_text="Appears as /home/work/<name> in sessions.")
    project = TextField(
        max_length=MAX_REFERENCE_LENGTH,
        required=False,
        allow_blank=True,
        default="",
        help_text="Shared with this project; else your own.",
    )
    host = TextField(
        max_length=MAX_REFERENCE_LENGTH,
        required=False,
        allow_blank=True,
        default="",
        help_text="Storage host; else the default one, or another that policies allow.",
    )


class FolderOut(serializers.ModelSerializer[VFolder]):
    owner = serializers.EmailField(source="owner.email", default=None, allow_null=True)
    project = serializers.CharField(source="project.name", default=None, allow_null=True)
    domain = serializers.CharField(source="domain.name")
    host = serializers.CharField(source="host.name")
    is_size_whole = serializers.BooleanField(help_text="False: it holds more than was counted.")

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
    is_complete = serializers.BooleanField(help_text="False: there is more than was counted.")


class EntryOut(serializers.Serializer[Entry]):
    name = serializers.SerializerMethodField(
        help_text="As it is on the disk; fit for display alone where it is not addressable."
    )
    kind = serializers.ChoiceField(choices=[kind.value for kind in EntryKind])
    size_bytes = serializers.IntegerField()
    modified_at = serializers.DateTimeField()
    is_addressable = serializers.SerializerMethodField(
        help_text="False: the name is not UTF-8, so it cannot be asked for here. A session can rename it."
    )

    def get_name(self, entry: Entry) -> str:
        return entry.name if is_addressable(entry.name) else display_name(entry.name)

    def get_is_addressable(self, entry: Entry) -> bool:
        return is_addressable(entry.name)


class DirectoryOut(serializers.Serializer[Any]):
    path = serializers.CharField(allow_blank=True)
    entries = EntryOut(many=True)
    is_complete = serializers.BooleanField(help_text="False: there are more entries than are shown.")


class DirectoryCreateInput(InputSerializer):
    path = TextField(
        check=check_directory_path, help_text="Relative to the folder; missing parents are made."
    )
