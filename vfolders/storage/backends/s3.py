"""Storage backend: a bucket of S3, mounted by s3fs or rclone."""

from collections.abc import Mapping, Sequence

from django.utils.translation import gettext_lazy as _

from vfolders.storage.backends.mounted import MountedStorage
from vfolders.storage.base import Space
from vfolders.storage.kinds import PATH, URL, HostKind, Input, Setting

RCLONE = "RCLONE_CONFIG_BERTH_"


class S3Storage(MountedStorage):
    """Object storage is no file system: a rename copies, nothing enforces a quota, links do not survive."""

    def programs(self) -> tuple[str, ...]:
        return (self.settings["client"], "fusermount3")

    def mount_command(self) -> Sequence[str]:
        return self._rclone() if self.settings["client"] == "rclone" else self._s3fs()

    def _s3fs(self) -> list[str]:
        source = self.settings["bucket"] + (f":{self.settings['prefix']}" if self.settings["prefix"] else "")
        owner = [f"uid={self.owner.uid}", f"gid={self.owner.gid}", "umask=0022", "mp_umask=0022"]
        words = [f"url={self.settings['url']}", "use_path_request_style", "allow_other", "nosuid", "nodev"]
        words += ["compat_dir", "enable_noobj_cache", *owner]
        if self.settings["region"]:
            words.append(f"endpoint={self.settings['region']}")
        options = [word for each in words for word in ("-o", each)]
        return ["s3fs", source, self.root, *options]

    def _rclone(self) -> list[str]:
        owner = ["--uid", str(self.owner.uid), "--gid", str(self.owner.gid), "--umask", "022"]
        source = f"berth:{self.settings['bucket']}{self.settings['prefix']}"
        cache = ["--vfs-cache-mode", "writes", "--cache-dir", f"{self.root}.cache", "--config", "/dev/null"]
        return ["rclone", "mount", source, self.root, "--daemon", "--allow-other", *owner, *cache]

    def mount_environment(self) -> Mapping[str, str]:
        key, secret = self.settings["access_key"], self.settings["secret_key"]
        if self.settings["client"] != "rclone":
            return {"AWSACCESSKEYID": key, "AWSSECRETACCESSKEY": secret}
        values = {
            "TYPE": "s3",
            "PROVIDER": "Other",
            "ENDPOINT": self.settings["url"],
            "FORCE_PATH_STYLE": "true",
        }
        values |= {"ACCESS_KEY_ID": key, "SECRET_ACCESS_KEY": secret, "REGION": self.settings["region"]}
        return {f"{RCLONE}{name}": value for name, value in values.items() if value}

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
        Setting("client", _("Mounted by"), choices=("s3fs", "rclone"), default="s3fs", is_required=False),
    ),
    needs="s3fs or rclone, fuse3; root",
)
