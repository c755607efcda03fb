"""Serializers of folders, directories and entries."""

from typing import Any

from rest_framework import serializers

from common.rest.input import InputSerializer, TextField
from vfolders.core.modes import FolderMode
from vfolders.core.paths import (
    display_name,
    is_addressable,
    parse_automatic_name,
    parse_folder_name,
    parse_path,
)
from vfolders.core.states import FolderState
from vfolders.models import FolderClone, VFolder
from vfolders.storage.base import Entry, EntryKind

MAX_REFERENCE_LENGTH = 255
MODES = [mode.value for mode in FolderMode]
STATES = [state.value for state in FolderState]


def check_directory_path(text: str) -> str:
    """Return `text` if it names a directory below a folder; one trailing slash is allowed.
    Raises UnsafePath.
    """
    parse_path(text.removesuffix("/"))
    return text


def check_folder_name(text: str) -> str:
    """Return `text` if a folder of some mode may have that name. Raises UnsafePath."""
    return parse_automatic_name(text) if text.startswith(".") else parse_folder_name(text)


def mode_field(**options: Any) -> serializers.ChoiceField:
    """Return the field of a mode, which becomes a FolderMode."""
    return serializers.ChoiceField(
        choices=MODES,
        required=False,
        help_text="What the folder is for. auto_mount: its name begins with a dot, and it is mounted in "
        "all sessions of its owner.",
        **options,
    )


class FolderCreateInput(InputSerializer):
    name = TextField(
        check=check_folder_name,
        help_text="Name of the folder; sessions mount it at /home/work/<name> by default.",
    )
    mode = mode_field(default=FolderMode.GENERAL.value)
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


class FolderUpdateInput(InputSerializer):
    name = TextField(check=check_folder_name, required=False, help_text="Another name of the folder.")
    mode = mode_field()


class FolderCloneInput(InputSerializer):
    name = TextField(check=check_folder_name, help_text="Name of the new folder.")
    project = TextField(
        max_length=MAX_REFERENCE_LENGTH,
        required=False,
        allow_blank=True,
        default="",
        help_text="Project that gets the new folder; empty: a folder of your own.",
    )
    host = TextField(
        max_length=MAX_REFERENCE_LENGTH,
        required=False,
        allow_blank=True,
        default="",
        help_text="Storage host of the new folder; default: that of the source.",
    )
    mode = mode_field()


class FolderRestoreInput(InputSerializer):
    name = TextField(
        check=check_folder_name,
        required=False,
        help_text="Another name, if the old one was given to another folder meanwhile.",
    )


class FolderPurgeInput(InputSerializer):
    name = TextField(help_text="Name of the folder, as a confirmation.")


class CloneOut(serializers.ModelSerializer[FolderClone]):
    error = serializers.SerializerMethodField(help_text="Why copying stopped; empty while it goes on.")

    class Meta:
        model = FolderClone
        fields = ("source_name", "started_at", "bytes_done", "bytes_total", "files_done", "error")
        read_only_fields = fields

    def get_error(self, clone: FolderClone) -> str:
        return clone.error_message


class FolderOut(serializers.ModelSerializer[VFolder]):
    owner = serializers.EmailField(source="owner.email", default=None, allow_null=True)
    project = serializers.CharField(source="project.name", default=None, allow_null=True)
    domain = serializers.CharField(source="domain.name")
    host = serializers.CharField(source="host.name")
    is_size_whole = serializers.BooleanField(help_text="false if the folder is larger than was counted.")
    mode = serializers.ChoiceField(choices=MODES)
    state = serializers.ChoiceField(choices=STATES)
    trashed_at = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(
        allow_null=True, help_text="Time at which a folder in the trash is deleted for ever."
    )
    clone = CloneOut(
        source="clone_under_way", allow_null=True, help_text="Progress while the folder is being copied."
    )

    class Meta:
        model = VFolder
        fields = (
            "id", "name", "owner", "project", "domain", "host", "mode", "state", "created_at", "size_bytes", "measured_at",
            "is_size_whole", "file_count", "quota_bytes", "is_quota_fixed", "used_at", "trashed_at", "expires_at", "clone",
        )  # fmt: skip
        read_only_fields = fields


class UsageOut(serializers.Serializer[Any]):
    size_bytes = serializers.IntegerField()
    file_count = serializers.IntegerField(
        allow_null=True, help_text="null if the storage host knows the size alone."
    )
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
