"""Proof that a machine reaches a storage host.

The portal writes a secret word into a folder of the host. A helper container on the machine mounts the
folder as a session would, reads the word and writes an answer, which the portal reads. So both see the
same files, with the same owner.
"""

import uuid
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from secrets import token_hex
from uuid import UUID, uuid4

from django.conf import settings

from agents.machines.helper_containers import NO_IMAGE, helper_image, one_off_labels
from agents.models import Agent
from agents.runtime.port import (
    ContainerRuntime,
    HelperSpec,
    MountSpec,
    ProcessTimeout,
    RuntimeFault,
    RuntimeUnavailable,
)
from agents.selectors import runtime_of
from common.errors import BerthError
from common.values.stored_message import one_line
from vfolders.core.mounts import FolderMount
from vfolders.models import StorageHost
from vfolders.selectors import backend_of, mount_from
from vfolders.storage.base import StorageBackend
from vfolders.storage.files import FolderFiles

TARGET = "/storage"
PROGRAM = "look.sh"
TIMEOUT_S = 30
MOST_BYTES = 200
ERROR_LENGTH = 500


def prove(host: StorageHost, agent: Agent, image_ids: Sequence[str]) -> str:
    """Prove that the machine reaches the host; return the reason if it does not, else "". Raises
    RuntimeUnavailable if its engine does not answer. Calls engine and storage, never the database.

    `image_ids` are images that may run as root on machines. One proof of a pair at a time.
    """
    storage, folder_id = backend_of(host), proof_folder(host, agent)
    try:
        storage.delete_folder(folder_id)  # of a proof that was killed
        storage.create_folder(folder_id)
        try:
            return _prove_in(storage, folder_id, host, agent, image_ids)[:ERROR_LENGTH]
        finally:
            storage.delete_folder(folder_id)
    except BerthError as error:
        return f"{error.message} {error.hint}".strip()[:ERROR_LENGTH]


def proof_folder(host: StorageHost, agent: Agent) -> UUID:
    """Return the id of the folder in which the pair is proven: always the same, so none is left over."""
    return uuid.uuid5(
        uuid.NAMESPACE_URL, f"berth:storage-proof:{settings.BERTH_INSTALLATION}:{host.pk}:{agent.pk}"
    )


def _prove_in(
    storage: StorageBackend, folder_id: UUID, host: StorageHost, agent: Agent, image_ids: Sequence[str]
) -> str:
    word, answer = token_hex(16), token_hex(16)
    files = FolderFiles(storage, folder_id)
    files.write_file((word,), [word.encode()])
    mount = mount_from(host, storage.folder_path(folder_id), is_portal_machine=agent.is_local)
    try:
        runtime = runtime_of(agent)
        image_id = helper_image(runtime, image_ids)
        if image_id is None:
            return f"It cannot be proven yet: {NO_IMAGE}."
        why_not = _look(runtime, image_id, mount, word, answer)
    except ProcessTimeout:
        return f"Reading and writing took longer than {TIMEOUT_S} s: the server does not answer the machine."
    except RuntimeUnavailable:
        raise
    except RuntimeFault as fault:
        return f"The machine cannot mount it: {_without(host.volume_secret, one_line(fault))}"
    return why_not or _read_answer(files, answer)


def _look(runtime: ContainerRuntime, image_id: str, mount: FolderMount, word: str, answer: str) -> str:
    """Return why the helper did not find and answer the word, else ""."""
    done = runtime.run_helper(proof_spec(image_id, mount, word, answer), timeout_s=TIMEOUT_S)
    said = " ".join(done.output.decode(errors="replace").split())[-MOST_BYTES:]
    if done.exit_code == NOT_THERE:
        return "What the machine has there is not the host: the file that the portal wrote is missing."
    if done.exit_code == OTHER_OWNER:
        return f"Files have another owner on the machine: {said}."
    if done.exit_code:
        return f"Sessions could not read and write there: {said}"
    return ""


def _read_answer(files: FolderFiles, answer: str) -> str:
    try:
        opened = files.open_file((answer,))
    except BerthError as error:
        return f"What the machine writes does not arrive: {error.message}"
    with opened.stream as stream:
        if stream.read(MOST_BYTES) != answer.encode():
            return "What the machine writes arrives changed."
    return ""


NOT_THERE, OTHER_OWNER = 3, 4


def proof_spec(image_id: str, mount: FolderMount, word: str, answer: str) -> HelperSpec:
    """Return the helper that looks, as the user of sessions and without any right."""
    user = f"{settings.BERTH_CONTAINER_UID}:{settings.BERTH_CONTAINER_GID}"
    kind = "volume" if mount.options else "bind"
    return HelperSpec(
        name=f"berth-storage-{uuid4().hex[:12]}",
        image=image_id,
        labels=one_off_labels("storage"),
        command=("sh", "-c", _program(), PROGRAM, TARGET, word, answer, user),
        mounts=(MountSpec(kind, TARGET, mount.source, options=mount.options),),  # type: ignore[arg-type]
        user=user,
    )


def _without(secret: str, text: str) -> str:
    return text.replace(secret, "…") if secret else text


@cache
def _program() -> str:
    return Path(__file__).with_name(PROGRAM).read_text()
