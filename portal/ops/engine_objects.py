"""What an installation leaves on a container engine, by label: how it is found and removed.

Several installations may share one engine, and with it the images. Each leaves a small volume there that says
"this portal uses this engine", so that the last one to go takes the images along, and no one before it.
"""

import json
from typing import Any
from urllib.parse import quote

from portal.ops.console import Say
from portal.ops.engine_api import EngineClient, EngineRefused

INSTALLATION_LABEL = "io.berth.installation"
ROLE_LABEL = "io.berth.role"
PORTAL_LABEL = "io.berth.portal"


def mark_presence(engine: EngineClient, installation: str) -> None:
    """Say that this installation uses the engine; repeated calls change nothing."""
    labels = {PORTAL_LABEL: installation}
    engine.post("/volumes/create", body={"Name": f"berth-portal-{installation}", "Labels": labels})


def has_others(engine: EngineClient, installation: str) -> bool:
    """Whether another installation uses this engine."""
    volumes = listed(engine, "/volumes", PORTAL_LABEL)["Volumes"] or []
    return any(volume["Labels"][PORTAL_LABEL] != installation for volume in volumes)


def remove_objects(engine: EngineClient, installation: str, log: Say) -> None:
    """Containers, networks and volumes of this installation, and the mark of its presence."""
    ours = f"{INSTALLATION_LABEL}={installation}"
    containers = listed(engine, "/containers/json", ours, all="true")
    for container in containers:
        engine.delete(f"/containers/{container['Id']}", query={"force": "true", "v": "true"})
    networks = listed(engine, "/networks", ours)
    for network in networks:
        engine.delete(f"/networks/{network['Id']}")
    volumes = listed(engine, "/volumes", ours)["Volumes"] or []
    for volume in volumes:
        engine.delete(f"/volumes/{volume['Name']}", query={"force": "true"})
    engine.delete(f"/volumes/berth-portal-{installation}")
    log(f"removed {len(containers)} containers, {len(networks)} networks and {len(volumes)} volumes")


def remove_images(engine: EngineClient, log: Say, label: str = ROLE_LABEL) -> None:
    """Images with our label, those built on others first; one that somebody's container uses stays."""
    images = listed(engine, "/images/json", label)
    for image in sorted(images, key=lambda image: -image["Created"]):
        tags = [tag for tag in image.get("RepoTags") or [] if tag != "<none>:<none>"]
        for name in tags or [image["Id"]]:
            try:
                engine.delete(f"/images/{name}")
                log(f"removed the image {name}")
            except EngineRefused as refusal:
                log(f"kept the image {name}: {refusal}")


def remove_walls(engine: EngineClient, installation: str, log: Say) -> None:
    """The rules that kept sessions apart, by a helper on the machine. Without an image that we built they stay, and
    match nothing any more."""
    images = listed(engine, "/images/json", f"{ROLE_LABEL}=session-image")
    built = [
        image for image in images if any(tag.startswith("berth/") for tag in image.get("RepoTags") or [])
    ]
    if not built:
        return
    name = f"berth-walls-{installation}"
    body = {
        "Image": max(built, key=lambda image: image["Created"])["Id"],
        "User": "0:0",
        "Entrypoint": ["/usr/sbin/nft", "add table inet berth; delete table inet berth"],
        "Cmd": [],
        "Labels": {INSTALLATION_LABEL: installation},
        "HostConfig": {
            "NetworkMode": "host",
            "UsernsMode": "host",
            "CapDrop": ["ALL"],
            "CapAdd": ["NET_ADMIN"],
        },
    }
    try:
        engine.post("/containers/create", query={"name": name}, body=body)
        engine.post(f"/containers/{name}/start")
        status = engine.post(f"/containers/{name}/wait")["StatusCode"]
        log("removed the walls" if status == 0 else f"could not remove the walls: exit code {status}")
    except EngineRefused as refusal:
        log(f"could not remove the walls: {refusal}")
    finally:
        engine.delete(f"/containers/{name}", query={"force": "true"})


def listed(engine: EngineClient, path: str, label: str, **query: str) -> Any:
    """What the engine lists under a path, limited to a label (`key` or `key=value`)."""
    filters = quote(json.dumps({"label": [label]}))
    return engine.get(
        "&".join([f"{path}?filters={filters}", *(f"{name}={value}" for name, value in query.items())])
    )
