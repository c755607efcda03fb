"""What people read for the codes of the access log. A code that is recorded and stands not here fails a test."""

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from common.audit import CHANGED

ACTIONS = {
    "accounts.sign_in": gettext_noop("Sign-in"),
    "accounts.sign_out": gettext_noop("Sign-out"),
    "accounts.set_password": gettext_noop("Password changed"),
    "accounts.view_as": gettext_noop("Looking at Berth as somebody else began"),
    "accounts.stop_viewing": gettext_noop("Looking at Berth as somebody else ended"),
    "accounts.control_sign_in": gettext_noop("Sign-in of somebody restricted"),
    "accounts.end_login": gettext_noop("Another browser signed out"),
    "accounts.end_other_logins": gettext_noop("All other browsers signed out"),
    "accounts.add_second_factor": gettext_noop("Second factor added"),
    "accounts.remove_second_factor": gettext_noop("Second factor removed"),
    "accounts.reset_second_factor": gettext_noop("Second factor taken away by an administrator"),
    "accounts.make_recovery_codes": gettext_noop("Recovery codes made"),
    "accounts.use_recovery_code": gettext_noop("Recovery code used"),
    "accounts.create_sign_in_link": gettext_noop("Sign-in link created"),
    "accounts.redeem_sign_in_link": gettext_noop("Sign-in link used"),
    "accounts.link_provider": gettext_noop("Account linked to an identity provider"),
    "accounts.create_invitation": gettext_noop("Invitation created"),
    "accounts.revoke_invitation": gettext_noop("Invitation revoked"),
    "accounts.accept_invitation": gettext_noop("Invitation accepted"),
    "accounts.ask_to_sign_up": gettext_noop("Sign-up asked for"),
    "accounts.set_sign_up": gettext_noop("Sign-up of a domain changed"),
    "accounts.create_user": gettext_noop("Account created"),
    "accounts.update_user": gettext_noop("Account changed"),
    "accounts.close_user": gettext_noop("Account closed"),
    "accounts.reopen_user": gettext_noop("Account opened again"),
    "accounts.purge_user": gettext_noop("Account purged"),
    "accounts.check_import": gettext_noop("File of people checked"),
    "accounts.start_import": gettext_noop("File of people taken in"),
    "accounts.add_member": gettext_noop("Member added to a project"),
    "accounts.remove_member": gettext_noop("Member removed from a project"),
    "accounts.set_member_rules": gettext_noop("Rules for members of a project changed"),
    "accounts.create_project": gettext_noop("Project created"),
    "accounts.update_project": gettext_noop("Project changed"),
    "accounts.purge_project": gettext_noop("Project purged"),
    "accounts.create_domain": gettext_noop("Domain created"),
    "accounts.update_domain": gettext_noop("Domain changed"),
    "accounts.purge_domain": gettext_noop("Domain purged"),
    "accounts.create_policy": gettext_noop("Resource policy created"),
    "accounts.update_policy": gettext_noop("Resource policy changed"),
    "accounts.delete_policy": gettext_noop("Resource policy deleted"),
    "accounts.assign_policy": gettext_noop("Resource policy assigned"),
    "accounts.create_budget": gettext_noop("Budget created"),
    "accounts.update_budget": gettext_noop("Budget changed"),
    "accounts.delete_budget": gettext_noop("Budget deleted"),
    "accounts.set_price": gettext_noop("Price set"),
    "accounts.delete_price": gettext_noop("Price taken back"),
    "accounts.create_keypair": gettext_noop("API token created"),
    "accounts.update_keypair": gettext_noop("API token changed"),
    "accounts.rotate_keypair": gettext_noop("Secret of an API token replaced"),
    "accounts.delete_keypair": gettext_noop("API token deleted"),
    "accounts.add_ssh_key": gettext_noop("SSH key added"),
    "accounts.remove_ssh_key": gettext_noop("SSH key removed"),
    "sessions.enqueue_session": gettext_noop("Session asked for"),
    "sessions.terminate_session": gettext_noop("Session stopped"),
    "sessions.stop_soon": gettext_noop("Session told to stop"),
    "sessions.keep_session": gettext_noop("Session kept running"),
    "sessions.open_app": gettext_noop("App opened"),
    "sessions.open_terminal": gettext_noop("Terminal opened"),
    "sessions.run_process": gettext_noop("Program run in a session"),
    "sessions.read_file": gettext_noop("File read from a session"),
    "sessions.write_file": gettext_noop("File written to a session"),
    "sessions.read_archive": gettext_noop("Files read from a session"),
    "sessions.write_archive": gettext_noop("Files written to a session"),
    "vfolders.create_folder": gettext_noop("Folder created"),
    "vfolders.delete_folder": gettext_noop("Folder deleted"),
    "vfolders.hand_over_folder": gettext_noop("Folder handed over"),
    "vfolders.write_file": gettext_noop("File written"),
    "vfolders.make_directory": gettext_noop("Directory created"),
    "vfolders.delete_entry": gettext_noop("File or directory deleted"),
    "agents.register_agent": gettext_noop("Agent registered"),
    "agents.transition": gettext_noop("Agent's state changed"),
    "agents.create_resource_group": gettext_noop("Resource group created"),
    "agents.create_resourcegroup": gettext_noop("Resource group created"),
    "agents.update_resourcegroup": gettext_noop("Resource group changed"),
    "agents.delete_resourcegroup": gettext_noop("Resource group deleted"),
    "agents.update_agent": gettext_noop("Agent changed"),
    "images.create_registry": gettext_noop("Registry created"),
    "images.update_registry": gettext_noop("Registry changed"),
    "images.delete_registry": gettext_noop("Registry deleted"),
    "images.update_containerimage": gettext_noop("Image changed"),
    "images.delete_containerimage": gettext_noop("Image deleted"),
    "vfolders.create_storagehost": gettext_noop("Storage host created"),
    "vfolders.update_storagehost": gettext_noop("Storage host changed"),
    "vfolders.delete_storagehost": gettext_noop("Storage host deleted"),
    "portal.create_announcement": gettext_noop("Announcement created"),
    "portal.update_announcement": gettext_noop("Announcement changed"),
    "portal.delete_announcement": gettext_noop("Announcement deleted"),
    "images.discover_image": gettext_noop("Image found"),
    "images.set_image_enabled": gettext_noop("Image allowed or forbidden"),
    "common.purge_audit": gettext_noop("Old lines of the access log forgotten"),
    "requests.refuse": gettext_noop("Request"),
    "requests.refuse_token": gettext_noop("Request with an API token"),
}
KINDS = {
    "accounts.user": gettext_noop("Person"),
    "accounts.project": gettext_noop("Project"),
    "accounts.domain": gettext_noop("Domain"),
    "accounts.keypair": gettext_noop("API token"),
    "accounts.sshkey": gettext_noop("SSH key"),
    "accounts.invitation": gettext_noop("Invitation"),
    "accounts.peopleimport": gettext_noop("File of people"),
    "accounts.resourcepolicy": gettext_noop("Resource policy"),
    "accounts.budget": gettext_noop("Budget"),
    "accounts.price": gettext_noop("Price"),
    "sessions_app.computesession": gettext_noop("Session"),
    "vfolders.vfolder": gettext_noop("Folder"),
    "vfolders.storagehost": gettext_noop("Storage host"),
    "agents.agent": gettext_noop("Agent"),
    "agents.resourcegroup": gettext_noop("Resource group"),
    "images.containerimage": gettext_noop("Image"),
    "images.registry": gettext_noop("Registry"),
    "portal.notification": gettext_noop("Notification"),
    "portal.announcement": gettext_noop("Announcement"),
}
# Which parameter of an address names an object of which kind.
PARAMETERS = {
    "user_id": "accounts.user",
    "project_id": "accounts.project",
    "domain_id": "accounts.domain",
    "invitation_id": "accounts.invitation",
    "keypair_id": "accounts.keypair",
    "ssh_key_id": "accounts.sshkey",
    "policy_id": "accounts.resourcepolicy",
    "budget_id": "accounts.budget",
    "price_id": "accounts.price",
    "session_id": "sessions_app.computesession",
    "folder_id": "vfolders.vfolder",
    "agent_id": "agents.agent",
    "image_id": "images.containerimage",
    "import_id": "accounts.peopleimport",
    "notification_id": "portal.notification",
}
OUTCOMES = {
    "done": gettext_noop("Done"),
    "refused": gettext_noop("Refused"),
    "failed": gettext_noop("Failed"),
}
WAYS = {
    "page": gettext_noop("a page"),
    "rest": gettext_noop("the REST API"),
    "cli": gettext_noop("the command line"),
    "websocket": gettext_noop("a terminal"),
    "portal": gettext_noop("Berth itself"),
}
REASONS = {
    "wrong_password": gettext_noop("The password was wrong."),
    "unknown_address": gettext_noop("Nobody has this address."),
    "account_closed": gettext_noop("The account is closed."),
    "wrong_second_factor": gettext_noop("The second factor was wrong."),
    "address_not_allowed": gettext_noop("The account may not be used from there."),
    "password_change_required": gettext_noop("The password has to be changed first."),
    "second_factor_required": gettext_noop("A second factor has to be set up first."),
    "too_many_attempts": gettext_noop("There were too many attempts; further ones wait."),
    "stale_sign_in": gettext_noop("The sign-in was begun elsewhere, was used already, or took too long."),
    "provider_failed": gettext_noop(
        "The identity provider did not answer, or its answer cannot be believed."
    ),
    "address_changed": gettext_noop("The address is another one than before."),
    "address_not_verified": gettext_noop("The address is not proved."),
    "address_not_trusted": gettext_noop("The identity provider's word does not count for the address."),
    "no_domain": gettext_noop("The domain for new people is not there."),
    "not_created": gettext_noop("The account could not be created."),
    "only_looking": gettext_noop("Somebody looked at Berth as another person, which changes nothing."),
    "private_to_person": gettext_noop("It is for the person alone."),
    "stopped": gettext_noop("It was stopped by hand."),
    "signed_out": gettext_noop("Whoever looked signed out."),
    "time_over": gettext_noop("The time was over."),
    "login_ended": gettext_noop("The sign-in of whoever looked ended."),
    "switched_off": gettext_noop("It is switched off in the settings."),
    "address_demanded": gettext_noop("Whoever looked came from elsewhere than they may."),
    "password_demanded": gettext_noop("Whoever looked had to change their password first."),
    "second_factor_demanded": gettext_noop("Whoever looked had to set up a second factor first."),
    "not_authenticated": gettext_noop("The token is unknown, revoked or expired."),
    "permission_denied": gettext_noop("It is seen, but may not be done."),
    "not_found": gettext_noop("It is not there, or hidden from who asked."),
    "conflict": gettext_noop("It is in a state in which this cannot be done."),
    "limit_exceeded": gettext_noop("A limit or the size of the machines forbids it."),
}
# Names of what stands in details; others read as they are.
FACTS = {
    "asked": gettext_noop("Asked for"),
    "answer": gettext_noop("Answer"),
    "status": gettext_noop("Status"),
    "policy": gettext_noop("Resource policy"),
    "name": gettext_noop("Name"),
    "title": gettext_noop("Title"),
    "email": gettext_noop("E-mail"),
    "role": gettext_noop("Role"),
    "domain": gettext_noop("Domain"),
    "user": gettext_noop("Person"),
    "provider": gettext_noop("Identity provider"),
    "fingerprint": gettext_noop("Fingerprint"),
    "sign_up": gettext_noop("Sign-up"),
    "mail_domains": gettext_noop("E-mail addresses at home here"),
    "path": gettext_noop("Path"),
    "app": gettext_noop("App"),
    "lines": gettext_noop("Lines"),
    "rules": gettext_noop("Rules"),
    "by_rule": gettext_noop("By a rule"),
    "reason": gettext_noop("Reason"),
    "until": gettext_noop("Until"),
    "state": gettext_noop("State"),
}
PERIODS_H = {
    "1": gettext_noop("The last hour"),
    "24": gettext_noop("The last 24 hours"),
    "168": gettext_noop("The last 7 days"),
    "720": gettext_noop("The last 30 days"),
}


def word(table: dict[str, str], code: str) -> str:
    """In the reader's language; a code of an older version reads as it is."""
    return _(table[code]) if code in table else code


def value_for_people(value: object) -> str:
    """What stood in a field, in one line."""
    if value == CHANGED:
        return _("changed, not shown")
    if value is None or value in ("", [], {}):
        return "—"
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, dict):
        return ", ".join(f"{name}: {value_for_people(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(value_for_people, value))
    return str(value)
