"""Views by which administrators control a user's sign-in, on the page of that user."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from accounts.sign_in import admin_control, second_factor
from accounts.web.page_access import require_administrator
from common.errors import Conflict, InvalidInput, TooManyRequests


@login_required
@require_POST
def change_sign_in(request: HttpRequest, user_id: int) -> HttpResponse:
    actor = require_administrator(request)
    try:
        admin_control.update_sign_in(
            actor=actor,
            user_id=user_id,
            must_change_password="must_change_password" in request.POST,
            allowed_networks=request.POST.get("allowed_networks", "").replace(",", "\n").splitlines(),
        )
    except (Conflict, InvalidInput) as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
        return redirect("person", user_id)
    messages.success(request, _("How this person signs in is changed."))
    return redirect("person", user_id)


@login_required
@require_POST
def end_logins(request: HttpRequest, user_id: int) -> HttpResponse:
    count = admin_control.end_user_logins(actor=require_administrator(request), user_id=user_id)
    sentence = ngettext("{count} browser is signed out.", "{count} browsers are signed out.", count)
    messages.success(request, sentence.format(count=count))
    return redirect("person", user_id)


@login_required
@require_POST
def mail_password_link(request: HttpRequest, user_id: int) -> HttpResponse:
    try:
        admin_control.mail_password_link(actor=require_administrator(request), user_id=user_id)
    except (Conflict, TooManyRequests) as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
        return redirect("person", user_id)
    messages.success(request, _("The mail is on its way."))
    return redirect("person", user_id)


@login_required
@require_POST
def reset_second_factor(request: HttpRequest, user_id: int) -> HttpResponse:
    try:
        person = second_factor.reset_second_factor(actor=require_administrator(request), user_id=user_id)
    except Conflict as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
        return redirect("person", user_id)
    messages.success(request, _("{name} has no second factor any more.").format(name=person.email))
    return redirect("person", user_id)
