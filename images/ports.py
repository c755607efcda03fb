"""Ports of images: what the apps above provide."""

from collections.abc import Collection, Mapping
from typing import Protocol

from common.actors import Actor
from common.ports import Port


class ImageHolderCounts(Protocol):
    def __call__(self, actor: Actor, references: Collection[str]) -> Mapping[str, int]:
        """Return {reference: number of machines that have it and that the actor sees}; omits those that none has."""


image_holder_counts: Port[ImageHolderCounts] = Port("images.image_holder_counts")
