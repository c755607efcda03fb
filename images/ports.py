"""Ports of images, implemented by the apps above."""

from collections.abc import Collection, Mapping
from typing import Protocol

from common.actors import Actor
from common.ports import Port


class ImageHolderCounts(Protocol):
    def __call__(self, actor: Actor, references: Collection[str]) -> Mapping[str, int]:
        """Return {reference: number of agents that have the image and that the actor sees}; omits
        images that no agent has.
        """


image_holder_counts: Port[ImageHolderCounts] = Port("images.image_holder_counts")
