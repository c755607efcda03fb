"""Access matrix of pages of django-allauth and of Django admin. Columns as in `matrix`."""

# Pages of django-allauth. Signing up is closed, people have one e-mail address, and a password that they know.
ACCOUNT = """
GET    account_email                       302        302        302        302        302        302        302        302        302        302
GET    mfa_index                           in         200        200        200        200        200        200        200        200        200
POST   mfa_index                           in         405        405        405        405        405        405        405        405        405
GET    mfa_authenticate                    in         302        302        302        302        302        302        302        302        302
POST   mfa_authenticate                    in         302        302        302        302        302        302        302        302        302
GET    mfa_reauthenticate                  in         302        302        302        302        302        302        302        302        302
POST   mfa_reauthenticate                  in         302        302        302        302        302        302        302        302        302
GET    mfa_activate_totp                   in         302        302        302        302        302        302        302        302        302
POST   mfa_activate_totp                   in         302        302        302        302        302        302        302        302        302
GET    mfa_deactivate_totp                 in         404        404        404        404        404        404        404        404        404
POST   mfa_deactivate_totp                 in         404        404        404        404        404        404        404        404        404
GET    mfa_view_recovery_codes             in         404        404        404        404        404        404        404        404        404
POST   mfa_view_recovery_codes             in         405        405        405        405        405        405        405        405        405
GET    mfa_generate_recovery_codes         in         302        302        302        302        302        302        302        302        302
POST   mfa_generate_recovery_codes         in         302        302        302        302        302        302        302        302        302
GET    mfa_download_recovery_codes         in         404        404        404        404        404        404        404        404        404
POST   mfa_download_recovery_codes         in         404        404        404        404        404        404        404        404        404
GET    mfa_list_webauthn                   302        302        302        302        302        302        302        302        302        302
POST   mfa_list_webauthn                   302        302        302        302        302        302        302        302        302        302
GET    mfa_add_webauthn                    in         302        302        302        302        302        302        302        302        302
POST   mfa_add_webauthn                    in         302        302        302        302        302        302        302        302        302
GET    mfa_reauthenticate_webauthn         in         302        302        302        302        302        302        302        302        302
POST   mfa_reauthenticate_webauthn         in         302        302        302        302        302        302        302        302        302
GET    mfa_remove_webauthn                 in         302        302        302        302        302        302        302        302        302
POST   mfa_remove_webauthn                 in         302        302        302        302        302        302        302        302        302
GET    mfa_edit_webauthn                   in         302        302        302        302        302        302        302        302        302
POST   mfa_edit_webauthn                   in         302        302        302        302        302        302        302        302        302
GET    mfa_login_webauthn                  in         302        302        302        302        302        302        302        302        302
POST   mfa_login_webauthn                  in         302        302        302        302        302        302        302        302        302
GET    account_login                       200        302        302        302        302        302        302        302        302        302
POST   account_login                       200        302        302        302        302        302        302        302        302        302
GET    account_logout                      302        200        200        200        200        200        200        200        200        200
POST   account_logout                      302        302        302        302        302        302        302        302        302        302
GET    account_inactive                    200        200        200        200        200        200        200        200        200        200
POST   account_inactive                    405        405        405        405        405        405        405        405        405        405
GET    account_signup                      302        302        302        302        302        302        302        302        302        302
POST   account_signup                      302        302        302        302        302        302        302        302        302        302
GET    socialaccount_connections           302        302        302        302        302        302        302        302        302        302
GET    socialaccount_login_cancelled       200        200        200        200        200        200        200        200        200        200
POST   socialaccount_login_cancelled       405        405        405        405        405        405        405        405        405        405
GET    socialaccount_login_error           401        401        401        401        401        401        401        401        401        401
POST   socialaccount_login_error           405        405        405        405        405        405        405        405        405        405
GET    socialaccount_signup                in         in         in         in         in         in         in         in         in         in
POST   socialaccount_signup                in         in         in         in         in         in         in         in         in         in
GET    account_reauthenticate              in         200        200        200        200        200        200        200        200        200
POST   account_reauthenticate              in         200        200        200        200        200        200        200        200        200
GET    account_email_verification_sent     200        200        200        200        200        200        200        200        200        200
POST   account_email_verification_sent     405        405        405        405        405        405        405        405        405        405
GET    account_change_password             in         200        200        200        200        200        200        200        200        200
POST   account_change_password             in         200        200        200        200        200        200        200        200        200
GET    account_set_password                in         302        302        302        302        302        302        302        302        302
POST   account_set_password                in         302        302        302        302        302        302        302        302        302
GET    account_reset_password              200        200        200        200        200        200        200        200        200        200
POST   account_reset_password              200        200        200        200        200        200        200        200        200        200
GET    account_confirm_login_code          in         302        302        302        302        302        302        302        302        302
POST   account_confirm_login_code          in         302        302        302        302        302        302        302        302        302
GET    account_confirm_email               200        200        200        200        200        200        200        200        200        200
POST   account_confirm_email               404        404        404        404        404        404        404        404        404        404
GET    account_reset_password_from_key_done 200       200        200        200        200        200        200        200        200        200
POST   account_reset_password_from_key_done 405       405        405        405        405        405        405        405        405        405
GET    account_reset_password_from_key     200        200        200        200        200        200        200        200        200        200
POST   account_reset_password_from_key     200        200        200        200        200        200        200        200        200        200
GET    account_reset_password_done         200        200        200        200        200        200        200        200        200        200
POST   account_reset_password_done         405        405        405        405        405        405        405        405        405        405
"""

# Django admin is for superadmins alone.
ADMIN = """
GET    admin:index                         in         in         in         in         in         in         in         200        in         in
POST   admin:index                         in         in         in         in         in         in         in         200        in         in
GET    admin:login                         in         403        403        403        403        403        403        302        403        403
POST   admin:login                         in         403        403        403        403        403        403        200        403        403
GET    admin:logout                        302        302        302        302        302        302        302        405        302        302
POST   admin:logout                        302        302        302        302        302        302        302        200        302        302
GET    admin:password_change               in         in         in         in         in         in         in         200        in         in
POST   admin:password_change               in         in         in         in         in         in         in         200        in         in
GET    admin:password_change_done          in         in         in         in         in         in         in         200        in         in
POST   admin:password_change_done          in         in         in         in         in         in         in         405        in         in
GET    admin:autocomplete                  in         in         in         in         in         in         in         403        in         in
POST   admin:autocomplete                  in         in         in         in         in         in         in         405        in         in
GET    admin:jsi18n                        in         in         in         in         in         in         in         200        in         in
POST   admin:jsi18n                        in         in         in         in         in         in         in         405        in         in
GET    admin:view_on_site                  in         in         in         in         in         in         in         404        in         in
POST   admin:view_on_site                  in         in         in         in         in         in         in         404        in         in
GET    admin:auth_user_password_change     in         in         in         in         in         in         in         200        in         in
POST   admin:auth_user_password_change     in         in         in         in         in         in         in         200        in         in
GET    admin:app_list                      in         in         in         in         in         in         in         200        in         in
POST   admin:app_list                      in         in         in         in         in         in         in         200        in         in
"""

# What superadmins may do by hand in Django admin, beside looking: the rest is refused with 403.
ADMIN_MODELS = {
    "accounts_user": {"add", "change"},
    "accounts_project": {"add", "change"},
    "accounts_domain": {"add", "change"},
    "accounts_keypair": {"change", "delete"},
    "accounts_resourcepolicy": {"add", "change", "delete"},
    "images_registry": {"add", "change", "delete"},
    "images_containerimage": {"change", "delete"},
    "agents_resourcegroup": set(),
    "agents_agent": set(),
    "vfolders_storagehost": {"add", "change", "delete"},
    "vfolders_vfolder": set(),
    "common_auditentry": set(),
    "portal_announcement": {"add", "change", "delete"},
}
ADMIN_KINDS = ("changelist", "add", "history", "delete", "change")
