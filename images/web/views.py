"""The Images page: images that sessions can be started from; administrators also see their
registries and the number of agents that have them.
"""

from collections.abc import Iterable

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_GET

from accounts.limits import read_scopes, scope_ids
from accounts.models import Project
from accounts.selectors import cached_projects, sees_everything
from accounts.tenancy.preferences import column_choice
from accounts.web.chosen_project import chosen_project
from common.pages.htmx import is_fragment, render_page_or_fragment
from common.pages.tables import Choices, Column, Filter, Listing, Table, define_table
from common.rest.actor import actor_of
from common.values.resources import format_slots, format_version
from images.models import ContainerImage
from images.ports import image_holders
from images.selectors import refusal_summaries, visible_images

TABLE = define_table(
    Table(
        name="images",
        noun=gettext_noop("images"),
        sort="name",
        search=lambda text: (
            Q(title__icontains=text) | Q(reference__icontains=text) | Q(description__icontains=text)
        ),
        search_label=gettext_noop("Search by name or description"),
        columns=(
            Column("name", gettext_noop("Image"), ("title", "reference"), is_fixed=True),
            Column("apps", gettext_noop("Apps")),
            Column("minimum", gettext_noop("At least")),
            Column("size", gettext_noop("Size"), ("size_bytes",), is_number=True),
            Column("architecture", gettext_noop("Architecture"), ("architecture",), is_usual=False),
            Column("registry", gettext_noop("Registry"), ("registry__name",)),
            Column("machines", gettext_noop("Machines"), is_number=True),
            Column("added", gettext_noop("Added"), ("created_at",), is_number=True),
            Column("actions", "", is_fixed=True),
        ),
        filters=(
            Filter("registry", gettext_noop("Registry"), lambda name: Q(registry__name=name)),
            Filter("architecture", gettext_noop("Architecture"), lambda name: Q(architecture=name)),
        ),
    )
)
FOR_ADMINS = ("registry", "machines")


@require_GET
@login_required
def image_list(request: HttpRequest) -> HttpResponse:
    """Show the images that sessions can be started from."""
    actor = actor_of(request)
    is_admin = sees_everything(actor)
    without = () if is_admin else FOR_ADMINS
    listing = Listing(TABLE, request.GET, chosen=column_choice(actor, TABLE.name), without=without)
    images = visible_images(actor)
    if not is_fragment(request):
        pairs = images.order_by().values_list("registry__name", "architecture").distinct()
        registries, architectures = zip(*pairs, strict=True) if pairs else ((), ())
        listing.choices = {"registry": _choices(registries), "architecture": _choices(architectures)}
    page = listing.page(images, lambda rows: rows)
    refusals = refusal_summaries(read_scopes(scope_ids(actor, _project(request)).keys()), page)
    references = [image.reference for image in page] if is_admin else []
    counts, total = image_holders.get()(actor, references) if is_admin else ({}, 0)
    context = {
        "listing": listing,
        "columns": listing.columns,
        "page": page,
        "machine_total": total,
        "rows": [
            {
                "image": image,
                "apps": ", ".join(app.title for app in image.app_hints) or _("Terminal"),
                "minimum": _minimum(image),
                "objection": refusals.get(image.reference, ""),
                "machine_count": counts.get(image.reference, 0),
            }
            for image in page
        ],
    }
    return render_page_or_fragment(request, "images/list.html", "images/_list.html", context)


def _minimum(image: ContainerImage) -> str:
    """Return the least amounts and CUDA of a session of the image, like "1 core, CUDA 12.4"."""
    amounts = [format_slots(image.min_slots)] if image.min_slots else []
    return ", ".join(amounts + ([f"CUDA {format_version(image.min_cuda)}"] if image.min_cuda else []))


def _project(request: HttpRequest) -> Project | None:
    """Return the project chosen in the bar, else the user's only project, else None."""
    projects = cached_projects(request.user)  # type: ignore[arg-type]
    chosen = chosen_project(request)
    return next(
        (each for each in projects if each.name == chosen), projects[0] if len(projects) == 1 else None
    )


def _choices(values: Iterable[str | None]) -> Choices:
    """Return the distinct non-empty values as choices of a filter."""
    return [(value, value) for value in sorted({value for value in values if value})]
