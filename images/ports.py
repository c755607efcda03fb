"""Ports of images, implemented by the apps above."""

from collections.abc import Collection, Mapping
from typing import Protocol

from common.actors import Actor
from common.ports import Port


class ImageHolders(Protocol):
    def __call__(self, actor: Actor, references: Collection[str]) -> tuple[Mapping[str, int], int]:
        """Return {reference: number of agents that have the image and that the actor sees}, which
        omits images that no agent has, and the number of all agents that the actor sees.
        """


image_holders: Port[ImageHolders] = Port("images.image_holders")
