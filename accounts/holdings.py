"""What people, projects and domains still have in the rooms above, which register here what they keep for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from accounts.models import Domain, OffBoarding, Project, User
from common.actors import Actor
from common.kept_sentences import KeptSentence

SHOWN = 5
Owner = User | Project | Domain


@dataclass(frozen=True, slots=True)
class Item:
    """One thing of a person."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Step:
    """How one room lets a person go.

    `order`: smaller ones first. `items`: what of a person there is to be let go of now. `settle`: do with one of them what the off-boarding says and
    tell what came of it, or None while it is under way; done again, it changes nothing more. `objection`: the sentence
    why a project or a domain cannot be closed now, or "". `history`: why the row of an owner must stay, or "".
    """

    name: str
    label: str  # of an item, with {name}; marked for translation
    order: int
    items: Callable[[User], Sequence[Item]]
    settle: Callable[[OffBoarding, str, Actor], KeptSentence | None]
    objection: Callable[[Project | Domain], str]
    history: Callable[[Owner], str]


_steps: dict[str, Step] = {}


def register(step: Step) -> None:
    """Called from AppConfig.ready; steps are taken by their `order`."""
    _steps[step.name] = step


def steps() -> Sequence[Step]:
    return sorted(_steps.values(), key=lambda step: step.order)


def items_of(user: User) -> list[tuple[Step, Item]]:
    return [(step, item) for step in steps() for item in step.items(user)]


def label_of(step_name: str, item_name: str) -> str:
    """How people call an item, in the reader's language."""
    step = _steps.get(step_name)
    return _(step.label).format(name=item_name) if step else item_name


def tied_by(user: User) -> str:
    """What must be let go of before the person can be moved or purged, as the end of a sentence; "" if nothing."""
    names = [label_of(step.name, item.name) for step, item in items_of(user)]
    names += [
        _("membership in “{project}”").format(project=name)
        for name in user.projects.values_list("name", flat=True)
    ]
    return ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")


def objections_to_closing(owner: Project | Domain) -> list[str]:
    return [sentence for step in steps() if (sentence := step.objection(owner))]


def history_of(owner: Owner) -> list[str]:
    return [sentence for step in steps() if (sentence := step.history(owner))]
