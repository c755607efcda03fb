"""Storage backend: a bucket of S3, mounted by s3fs. (rclone 1.60 forgets empty directories.)"""

from collections.abc import Mapping, Sequence

from django.utils.translation import gettext_lazy as _

from vfolders.storage.backends.mounted import MountedStorage
from vfolders.storage.base import Space
from vfolders.storage.kinds import PATH, URL, HostKind, Input, Setting


class S3Storage(MountedStorage):
    """Object storage is no file system: a rename copies, nothing enforces a quota, links do not survive."""

    def programs(self) -> tuple[str, ...]:
        return ("s3fs", "fusermount3")

    def mount_command(self) -> Sequence[str]:
        source = self.settings["bucket"] + (f":{self.settings['prefix']}" if self.settings["prefix"] else "")
        owner = [f"uid={self.owner.uid}", f"gid={self.owner.gid}", "mp_umask=0022"]
        words = [f"url={self.settings['url']}", "use_path_request_style", "allow_other", "nosuid", "nodev"]
        words += ["enable_noobj_cache", *owner]
        if self.settings["region"]:
            words.append(f"endpoint={self.settings['region']}")
        options = [word for each in words for word in ("-o", each)]
        return ["s3fs", source, self.root, *options]

    def mount_environment(self) -> Mapping[str, str]:
        return {
            "AWSACCESSKEYID": self.settings["access_key"],
            "AWSSECRETACCESSKEY": self.settings["secret_key"],
        }

    def space(self) -> Space:
        """Return zeros: a bucket has no size."""
        with self.opened_root():
            return Space(0, 0)


KIND = HostKind(
    name="s3",
    title=_("S3"),
    summary=_(
        "A bucket of S3 or a compatible store. For data that is written once; slow for many small files."
    ),
    open=S3Storage,
    settings=(
        Setting("url", _("Address"), pattern=URL, example="https://s3.example.org"),
        Setting("bucket", _("Bucket"), pattern=r"[a-z0-9][a-z0-9.-]{2,62}", example="berth-folders"),
        Setting("prefix", _("Directory in it"), pattern=PATH, is_required=False, example="/folders"),
        Setting("region", _("Region"), pattern=r"[a-z0-9-]+", is_required=False, example="eu-central-1"),
        Setting("access_key", _("Access key"), pattern=r"[A-Za-z0-9_-]+"),
        Setting("secret_key", _("Secret key"), input=Input.SECRET),
    ),
    programs=("s3fs", "fusermount3"),
    needs="s3fs, fuse3; root",
)
