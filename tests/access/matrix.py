"""Access matrix: each method of each route, for each role. The tests walk the portal's real routes.

A cell is the status of the answer; `in` is a redirect to sign-in. After the cells may stand the body of the request and,
with a question mark, its query (tests/access/world.py). All want what belongs to `owner`: a running session, a private
folder, an API token; to restore and to purge, a folder in the trash. `stranger` governs another domain; `outsider` is in the
same domain, but not in the project. Monitors are of the same domain, and in no project.
"""

from dataclasses import dataclass, replace

from tests.access.matrix_of_others import ACCOUNT, ADMIN

COLUMNS = (
    "anonymous",
    "stranger",
    "outsider",
    "member",
    "owner",
    "project_admin",
    "domain_admin",
    "superadmin",
    "domain_monitor",
    "monitor",
)
# Programs of the owner: with a token of the scope `read` alone, and with one that has expired.
TOKEN_COLUMNS = ("reader", "expired")
SIGN_IN = "in"
OPEN = "open"

PAGES = """
GET    start                               in         200        200        200        200        200        200        200        200        200
GET    dashboard                           in         200        200        200        200        200        200        200        200        200
GET    styleguide                          in         404        404        404        404        404        404        200        404        404
POST   styleguide                          in         404        404        404        404        404        404        302        404        404
GET    styleguide-log                      in         404        404        404        404        404        404        200        404        404
GET    styleguide-metrics                  in         404        404        404        404        404        404        200        404        404
GET    notifications                       in         200        200        200        200        200        200        200        200        200
GET    notifications-bell                  in         200        200        200        200        200        200        200        200        200
POST   read-notifications                  in         302        302        302        302        302        302        302        302        302
POST   read-notification                   in         404        404        404        302        404        404        404        404        404
POST   dismiss-announcement                in         302        302        302        302        302        302        302        302        302
GET    audit                               in         200        404        404        404        404        200        200        200        200
GET    audit-export                        in         200        404        404        404        404        200        200        200        200
GET    audit-entry                         in         404        404        404        200        404        200        200        200        200
GET    own-activity                        in         200        200        200        200        200        200        200        200        200
GET    own-activity-export                 in         200        200        200        200        200        200        200        200        200
GET    search                              in         200        200        200        200        200        200        200        200        200
POST   switch-project                      in         302        302        302        302        302        302        302        302        302
GET    administration                      in         404        404        404        404        404        404        200        404        200
GET    profile                             in         200        200        200        200        200        200        200        200        200
GET    security                            in         200        200        200        200        200        200        200        200        200
POST   end-login                           in         404        404        404        404        404        404        404        404        404
POST   end-other-logins                    in         302        302        302        302        302        302        302        302        302
GET    keys                                in         200        200        200        200        200        200        200        200        200
POST   keys                                in         201        201        201        201        201        201        201        201        201  token
GET    token                               in         404        404        404        200        404        404        404        404        404
POST   token                               in         404        404        404        302        404        404        404        404        404  token
POST   rotate-token                        in         404        404        404        201        404        404        404        404        404
POST   token-state                         in         404        404        404        302        404        404        404        404        404
POST   delete-token                        in         404        404        404        302        404        404        404        404        404
POST   revoke-token                        in         404        404        404        404        403        302        302        403        403
GET    ssh-keys                            in         200        200        200        200        200        200        200        200        200
POST   ssh-keys                            in         302        302        302        302        302        302        302        302        302        ssh-key
POST   remove-ssh-key                      in         404        404        404        302        404        404        404        404        404
POST   revoke-ssh-key                      in         404        404        404        404        403        302        302        403        403
GET    callbacks                           in         200        200        200        200        200        200        200        200        200
POST   callbacks                           in         201        201        201        201        201        201        201        201        201
GET    dotfiles                            in         200        200        200        200        200        200        200        200        200
POST   dotfiles                            in         302        302        302        302        302        302        302        302        302        dotfile
POST   remove-dotfile                      in         404        404        404        302        404        404        404        404        404        dotfile
POST   set-startup-script                  in         302        302        302        302        302        302        302        302        302        script
POST   remove-startup-script               in         404        404        404        302        404        404        404        404        404
GET    preferences                         in         200        200        200        200        200        200        200        200        200
POST   preferences                         in         302        302        302        302        302        302        302        302        302
POST   choose-language                     302        302        302        302        302        302        302        302        302        302  language
POST   array-stop                          in         404        404        404        302        302        302        302        403        403
POST   array-keep                          in         404        404        404        302        302        302        302        403        403
POST   choose-columns                      in         302        302        302        302        302        302        302        302        302  columns
GET    sign-in-once                        200        200        200        200        200        200        200        200        200        200
POST   sign-in-once                        404        404        404        404        404        404        404        404        404        404
GET    session-list                        in         200        200        200        200        200        200        200        200        200
GET    session-export                      in         200        200        200        200        200        200        200        200        200
POST   session-stop-many                   in         200        200        200        302        302        302        302        200        200  sessions
POST   session-keep-many                   in         200        200        200        302        302        302        302        200        200  sessions
GET    session-new                         in         200        200        200        200        200        200        200        200        200
POST   session-new                         in         422        422        302        302        302        422        422        422        422  launcher
POST   session-summary                     in         200        200        200        200        200        200        200        200        200  launcher
POST   session-quick-start                 in         404        404        302        302        302        404        404        404        404  image
GET    person-limits                       in         404        404        404        200        200        200        200        200        200
GET    session-templates                   in         200        200        200        200        200        200        200        200        200
GET    session-presets                     in         200        200        200        200        200        200        200        200        200
POST   session-presets                     in         422        422        403        403        302        302        302        403        403  preset-form
GET    session-preset                      in         404        404        403        403        200        200        200        403        403
POST   session-preset                      in         404        404        403        403        302        302        302        403        403  preset-change-form
POST   delete-preset                       in         404        404        403        403        302        302        302        403        403
GET    new-template                        in         404        404        404        200        403        403        403        403        403  ?session
POST   new-template                        in         302        302        302        302        302        302        302        302        302  template-form
POST   start-template                      in         404        404        404        302        404        404        404        404        404
POST   delete-template                     in         404        404        404        302        404        404        404        404        404
GET    session-detail                      in         404        404        404        200        200        200        200        200        200
GET    session-terminal                    in         404        404        404        200        403        403        403        403        403
GET    session-log                         in         404        404        404        200        200        200        200        403        403
POST   session-stop                        in         404        404        404        302        302        302        302        403        403
POST   session-keep                        in         404        404        404        302        302        302        302        403        403
POST   session-extend                      in         404        404        404        302        302        302        302        403        403
POST   session-priority                    in         404        404        404        302        403        302        302        403        403  priority
GET    session-why                         in         404        404        404        200        200        200        200        200        200
GET    storage-hosts                       in         404        404        404        404        404        404        200        404        200
GET    storage-host                        in         404        404        404        404        404        404        200        404        404
POST   storage-host                        in         404        404        404        404        404        404        302        404        404  storage-reach-form
GET    storage-host-kinds                  in         404        404        404        404        404        404        200        404        404
GET    add-storage-host                    in         404        404        404        404        404        404        200        404        404
POST   add-storage-host                    in         404        404        404        404        404        404        302        404        404  new-storage-host-form
GET    storage-host-settings               in         404        404        404        404        404        404        200        404        404
POST   storage-host-settings               in         404        404        404        404        404        404        302        404        404  storage-settings-form
GET    storage-host-rights                 in         404        404        404        404        404        404        200        404        404
POST   storage-host-rights                 in         404        404        404        404        404        404        302        404        404  storage-rights-form
POST   remove-storage-host                 in         404        404        404        404        404        404        302        404        404
POST   check-storage-host                  in         404        404        404        404        404        404        302        404        404
POST   session-start-again                 in         404        404        404        302        403        403        403        403        403
GET    app-authorize                       in         404        404        404        303        403        403        403        403        403  ?app
GET    app-open                            in         404        404        404        303        403        403        403        403        403
GET    data                                in         200        200        200        200        200        200        200        200        200
POST   data                                in         302        302        302        302        302        302        302        302        302  own-folder
GET    connect-folders                     in         200        200        200        200        200        200        200        200        200
GET    folder-export                       in         200        200        200        200        200        200        200        200        200
POST   folder-trash-many                   in         200        200        200        302        200        302        302        200        200  folders
POST   folder-restore-many                 in         200        200        200        302        200        302        302        200        200  folders
POST   folder-purge-many                   in         200        200        200        200        200        200        200        200        200  folders
GET    folder                              in         404        404        404        200        404        200        200        403        403
GET    all-folders                         in         200        404        404        404        200        200        200        200        200
GET    export-all-folders                  in         200        404        404        404        200        200        200        200        200
POST   trash-folders                       in         200        404        404        404        200        200        200        200        200  admin-folders
POST   quota-of-folders                    in         200        404        404        404        200        200        200        200        200  admin-folders
GET    user-storage                        in         200        404        404        404        200        200        200        200        200
GET    project-storage                     in         200        404        404        404        200        200        200        200        200
GET    host-storage                        in         404        404        404        404        404        404        200        404        200
GET    host-limits                         in         404        404        404        404        404        404        200        404        404
POST   host-limits                         in         404        404        404        404        404        404        302        404        404  host-limits-form
GET    folder-usage                        in         404        404        404        200        404        200        200        403        403
POST   count-folder                        in         404        404        404        302        404        302        302        403        403
POST   folder-quota                        in         404        404        404        302        404        302        302        403        403  quota-form
GET    folder-download                     in         404        404        404        200        404        200        200        403        403  ?file
GET    folder-file                         in         404        404        404        200        404        200        200        403        403  ?file
GET    folder-image                        in         404        404        404        409        404        409        409        403        403  ?file
GET    folder-deleted                      in         404        404        404        200        404        200        200        403        403
POST   folder-deleted                      in         404        404        404        302        404        302        302        403        403  batch
POST   folder-empty-deleted                in         404        404        404        302        404        302        302        403        403  confirm
POST   folder-upload                       in         404        404        404        302        404        302        302        403        403  upload
POST   folder-make-directory               in         404        404        404        302        404        302        302        403        403  name
GET    folder-delete-entry                 in         404        404        404        200        404        200        200        403        403  ?file
POST   folder-delete-entry                 in         404        404        404        302        404        302        302        403        403  ?file
GET    folder-life                         in         404        404        404        200        404        200        200        200        200
POST   folder-rename                       in         404        404        404        302        404        302        302        403        403  another-name
POST   folder-mode                         in         404        404        404        302        404        302        302        403        403  mode
POST   folder-clone                        in         404        404        404        302        404        302        302        403        403  another-name
POST   folder-clone-retry                  in         404        404        404        422        404        422        422        403        403
POST   folder-trash                        in         404        404        404        302        404        302        302        403        403
POST   folder-restore                      in         404        404        404        302        404        302        302        404        404
POST   folder-purge                        in         404        404        404        302        404        302        302        404        404  confirm-trashed
GET    folder-sharing                      in         404        404        404        200        404        200        200        403        403
POST   folder-sharing                      in         404        404        404        302        404        302        302        403        403  share
POST   folder-share                        in         404        404        404        302        404        302        302        403        403  share-right
POST   folder-sessions-end                 in         404        404        404        302        404        302        302        403        403  mounting
POST   folder-links                        in         404        404        404        201        404        201        201        403        403  link
POST   folder-link                         in         404        404        404        302        404        302        302        403        403
POST   folder-leave                        in         404        404        404        302        404        302        302        302        302
POST   folder-invitation                   in         302        302        302        302        302        302        302        302        302
GET    public-link                         200        200        200        200        200        200        200        200        200        200
GET    public-link-download                200        200        200        200        200        200        200        200        200        200
GET    people                              in         200        404        404        404        200        200        200        200        200
GET    people-export                       in         200        404        404        404        200        200        200        200        200
GET    new-person                          in         200        404        404        404        404        200        200        404        404
POST   new-person                          in         201        404        404        404        404        201        201        404        404  person-form
GET    people-import-form                  in         200        404        404        404        404        200        200        404        404
POST   people-import-form                  in         302        404        404        404        404        302        302        404        404  people-file
GET    people-import-template              in         200        404        404        404        404        200        200        404        404
GET    people-import                       in         404        404        404        404        404        200        404        404        404
POST   people-import-start                 in         404        404        404        404        404        302        404        404        404
GET    people-import-report                in         404        404        404        404        404        200        404        404        404
POST   people-import-links                 in         404        404        404        404        404        200        404        404        404
POST   people-edit-many                    in         200        404        404        404        404        200        200        404        404  people
POST   people-close-many                   in         200        404        404        404        200        200        200        200        200  people
GET    person                              in         404        404        404        404        200        200        200        200        200
POST   person                              in         404        404        404        404        403        302        302        403        403  person-change
GET    close-person                        in         404        404        404        404        403        200        200        403        403
POST   close-person                        in         404        404        404        404        403        302        302        403        403  closing
GET    person-view-as                      in         404        404        404        404        403        302        302        403        403
POST   person-view-as                      in         404        404        404        404        403        302        302        403        403  reason
POST   stop-viewing                        in         302        302        302        302        302        302        302        302        302
POST   person-sign-in                      in         404        404        404        404        403        302        302        403        403
POST   person-logins-end                   in         404        404        404        404        403        302        302        403        403
POST   person-password-mail                in         404        404        404        404        403        302        302        403        403
POST   person-second-factor-reset          in         404        404        404        404        403        302        302        403        403
POST   reopen-person                       in         404        404        404        404        403        302        302        403        403
POST   purge-person                        in         404        404        404        404        403        302        302        403        403
GET    invitations                         in         200        404        404        404        404        200        200        200        200
POST   invitations                         in         422        404        404        404        404        201        201        422        422  invitation
POST   invitation-revoke                   in         404        404        404        404        404        302        302        403        403
GET    invitation                          404        404        404        404        404        404        404        404        404        404
POST   invitation                          404        404        404        404        404        404        404        404        404        404
POST   oidc                                404        404        404        404        404        404        404        404        404        404
GET    oidc-callback                       404        404        404        404        404        404        404        404        404        404
GET    sign-up                             200        302        302        302        302        302        302        302        302        302
POST   sign-up                             200        302        302        302        302        302        302        302        302        302
GET    projects                            in         200        404        404        404        200        200        200        200        200
POST   projects                            in         302        404        404        404        422        302        302        422        422  new-project
GET    project                             in         404        404        403        403        200        200        200        200        200
POST   project                             in         404        404        403        403        403        302        302        403        403  name
GET    project-rules                       in         404        404        403        403        403        200        200        403        403
POST   project-rules                       in         404        404        403        403        403        302        302        403        403
POST   project-members                     in         404        404        403        403        302        302        302        403        403  new-member
POST   project-member-remove               in         404        404        403        403        302        302        302        403        403
POST   project-state                       in         404        404        403        403        403        302        302        403        403
POST   project-purge                       in         404        404        403        403        403        302        302        403        403
GET    domains                             in         404        404        404        404        404        404        200        404        200
POST   domains                             in         404        404        404        404        404        404        302        404        422  name
GET    domain                              in         404        404        404        404        404        404        200        404        200
POST   domain                              in         404        404        404        404        404        404        302        404        403  name
POST   domain-sign-up                      in         404        404        404        404        404        404        302        404        403  sign-up
POST   domain-state                        in         404        404        404        404        404        404        302        404        403
POST   domain-purge                        in         404        404        404        404        404        404        302        404        403
GET    policies                            in         200        404        404        404        404        200        200        200        200
GET    new-policy                          in         200        404        404        404        404        200        200        404        404
POST   new-policy                          in         302        404        404        404        404        302        302        404        404  name
GET    policy                              in         404        404        404        404        404        200        200        200        200
POST   policy                              in         404        404        404        404        404        302        302        403        403  name
POST   policy-default                      in         404        404        404        404        404        403        302        403        403
POST   policy-delete                       in         404        404        404        404        404        302        302        403        403
POST   policy-assign                       in         404        404        404        404        403        302        302        403        403
GET    budgets                             in         200        404        404        404        404        200        200        200        200
GET    new-budget                          in         200        404        404        404        404        200        200        404        404
POST   new-budget                          in         422        404        404        404        404        200        200        404        404  budget-form
GET    budget                              in         404        404        404        404        404        200        200        200        200
POST   budget                              in         404        404        404        404        404        200        200        403        403  budget-form
POST   budget-delete                       in         404        404        404        404        404        302        302        403        403
GET    prices                              in         200        404        404        404        404        200        200        200        200
POST   prices                              in         403        404        404        404        404        403        302        403        403  price
POST   price-delete                        in         403        404        404        404        404        403        302        403        403
GET    images                              in         200        200        200        200        200        200        200        200        200
GET    image                               in         404        404        404        404        404        404        200        404        200
POST   bring-image                         in         404        404        404        404        404        404        302        404        404  target
POST   pin-image                           in         404        404        404        404        404        404        302        404        404
POST   remove-agent-image                  in         404        404        404        404        404        404        302        404        404
GET    agents                              in         200        200        200        200        200        200        200        200        200
GET    agent                               in         200        200        200        200        200        200        200        200        200
GET    agents-export                       in         200        200        200        200        200        200        200        200        200
GET    agent-map                           in         200        200        200        200        200        200        200        200        200
GET    agent-drain                         in         403        403        403        403        403        403        200        403        403
GET    agent-maintenance                   in         403        403        403        403        403        403        200        403        403
POST   agent-maintenance                   in         403        403        403        403        403        403        302        403        403
POST   agent-check                         in         403        403        403        403        403        403        302        403        403
POST   agent-state                         in         403        403        403        403        403        403        302        403        403  drain
GET    new-agent                           in         404        404        404        404        404        404        200        404        404
POST   new-agent                           in         404        404        404        404        404        404        422        404        404
GET    agent-invitation                    in         404        404        404        404        404        404        302        404        404
POST   cancel-invitation                   in         404        404        404        404        404        404        404        404        404
POST   agent-certificate                   in         404        404        404        404        404        404        409        404        404
POST   agent-revoke                        in         404        404        404        404        404        404        302        404        404
GET    join-machine                        404        404        404        404        404        404        404        404        404        404
GET    queue                               in         200        200        200        200        200        200        200        200        200
GET    expected-starts                     in         200        200        200        200        200        200        200        200        200
GET    accelerators                        in         404        404        404        404        404        404        200        404        200
GET    accelerator                         in         404        404        404        404        404        404        200        404        200
POST   quarantine-device                   in         404        404        404        404        404        404        302        404        404  because
POST   release-device                      in         404        404        404        404        404        404        302        404        404
POST   forget-device                       in         404        404        404        404        404        404        302        404        404
POST   split-device                        in         404        404        404        404        404        404        404        404        404
GET    sharing-rules                       in         404        404        404        404        404        404        200        404        200
POST   sharing-rules                       in         404        404        404        404        404        404        302        404        404  sharing-form
GET    sharing-rule                        in         404        404        404        404        404        404        200        404        404
POST   sharing-rule                        in         404        404        404        404        404        404        302        404        404  sharing-form
POST   delete-sharing-rule                 in         404        404        404        404        404        404        302        404        404
GET    health-rules                        in         404        404        404        404        404        404        200        404        404
POST   health-rules                        in         404        404        404        404        404        404        302        404        404  health-rules-form
GET    vendors                             in         404        404        404        404        404        404        200        404        404
GET    new-vendor                          in         404        404        404        404        404        404        200        404        404
POST   new-vendor                          in         404        404        404        404        404        404        302        404        404  vendor
GET    vendor                              in         404        404        404        404        404        404        200        404        404
POST   vendor                              in         404        404        404        404        404        404        302        404        404  vendor
POST   delete-vendor                       in         404        404        404        404        404        404        302        404        404
GET    resource-groups                     in         404        404        404        404        404        404        200        404        200
GET    new-resource-group                  in         404        404        404        404        404        404        200        404        404
POST   new-resource-group                  in         404        404        404        404        404        404        302        404        404  group-form
GET    resource-group                      in         404        404        404        404        404        404        200        404        200
POST   resource-group                      in         404        404        404        404        404        404        302        404        404  group-form
GET    scheduler                           in         404        404        404        404        404        404        302        404        302
GET    resource-group-scheduler            in         404        404        404        404        404        404        200        404        200
GET    resource-group-tick                 in         404        404        404        404        404        404        200        404        200
POST   resource-group-state                in         404        404        404        404        404        404        302        404        404  group-state
POST   resource-group-delete               in         404        404        404        404        404        404        302        404        404
POST   resource-group-grant                in         404        404        404        404        404        404        302        404        404  grant-form
POST   resource-group-revoke               in         404        404        404        404        404        404        302        404        404
GET    resource-group-weights              in         404        404        404        404        404        404        200        404        200
POST   resource-group-weights              in         404        404        404        404        404        404        302        404        404  weight-form
GET    resource-group-limits               in         404        404        404        404        404        404        200        404        200
POST   resource-group-limits               in         404        404        404        404        404        404        302        404        404  limit-form
GET    resource-group-limit                in         404        404        404        404        404        404        200        404        404  ?limit
POST   resource-group-limit                in         404        404        404        404        404        404        302        404        404  limit-form  ?limit
POST   remove-group-limit                  in         404        404        404        404        404        404        302        404        404  ?limit
GET    reservations                        in         404        404        404        404        404        404        200        404        200
POST   reservations                        in         404        404        404        404        404        404        302        404        404  reservation-form
GET    reservation                         in         404        404        404        404        404        404        200        404        404
POST   reservation                         in         404        404        404        404        404        404        302        404        404  reservation-change-form
POST   cancel-reservation                  in         404        404        404        404        404        404        302        404        404
POST   resource-group-agents               in         404        404        404        404        404        404        302        404        404  agent
GET    api-reference                       in         200        200        200        200        200        200        200        200        200
"""

DAV = """
GET    webdav-root                         401        200        200        200        200        200        200        200        200        200
GET    webdav                              401        404        404        404        200        404        404        404        404        404
PUT    webdav                              401        404        404        404        204        404        404        404        404        404
DELETE webdav                              401        404        404        404        204        404        404        404        404        404
"""

REST = """
GET    api-health                          200        200        200        200        200        200        200        200        200        200
GET    api-events                          401        200        200        200        200        200        200        200        200        200
GET    api-notifications                   401        200        200        200        200        200        200        200        200        200
POST   api-notifications-read              401        200        200        200        200        200        200        200        200        200
POST   api-notification-read               401        404        404        404        200        404        404        404        404        404
GET    api-audit                           401        200        200        200        200        200        200        200        200        200
GET    api-me                              401        200        200        200        200        200        200        200        200        200
GET    api-projects                        401        200        200        200        200        200        200        200        200        200
POST   api-projects                        401        201        403        403        403        403        201        201        403        403  name
GET    api-project                         401        404        404        200        200        200        200        200        200        200
PATCH  api-project                         401        404        404        403        403        403        200        200        403        403  title
DELETE api-project                         401        404        404        403        403        403        409        409        403        403
GET    api-member-rules                    401        404        404        403        403        200        200        200        200        200
PUT    api-member-rules                    401        404        404        403        403        403        200        200        403        403  rules
POST   api-member-rules-impact             401        404        404        403        403        403        200        200        403        403  rules
GET    api-members                         401        404        404        403        403        200        200        200        200        200
POST   api-members                         401        404        404        403        403        201        201        201        403        403  new-member
DELETE api-member                          401        404        404        403        403        204        204        204        403        403
GET    api-users                           401        200        200        200        200        200        200        200        200        200
POST   api-users                           401        201        403        403        403        403        201        201        403        403  person
GET    api-user                            401        404        404        404        200        200        200        200        200        200
PATCH  api-user                            401        404        404        404        403        403        200        200        403        403  name
DELETE api-user                            401        404        404        404        403        403        409        409        403        403
POST   api-user-imports                    401        201        403        403        403        403        201        201        403        403  people-text
GET    api-user-import                     401        404        404        404        404        404        200        404        404        404
POST   api-user-import                     401        404        404        404        404        404        202        404        404        404
GET    api-user-import-rows                401        404        404        404        404        404        200        404        404        404
POST   api-user-import-links               401        404        404        404        404        404        200        404        404        404
GET    api-user-closing                    401        404        404        404        403        403        200        200        403        403
POST   api-user-closing                    401        404        404        404        403        403        202        202        403        403
DELETE api-user-closing                    401        404        404        404        403        403        200        200        403        403
GET    api-logins                          401        200        200        200        200        200        200        200        200        200
DELETE api-logins                          401        200        200        200        200        200        200        200        200        200
DELETE api-login                           401        404        404        404        404        404        404        404        404        404
GET    api-user-sign-in                    401        404        404        404        403        403        200        200        403        403
PATCH  api-user-sign-in                    401        404        404        404        403        403        200        200        403        403
DELETE api-user-second-factor              401        404        404        404        403        403        409        409        403        403
DELETE api-user-logins                     401        404        404        404        403        403        200        200        403        403
POST   api-user-password-mail              401        404        404        404        403        403        409        409        403        403
GET    api-domains                         401        200        200        200        200        200        200        200        200        200
POST   api-domains                         401        403        403        403        403        403        403        201        403        403  name
GET    api-domain                          401        404        200        200        200        200        200        200        200        200
PATCH  api-domain                          401        404        403        403        403        403        403        200        403        403  title
DELETE api-domain                          401        404        403        403        403        403        403        409        403        403
GET    api-policies                        401        200        200        200        200        200        200        200        200        200
POST   api-policies                        401        201        403        403        403        403        201        201        403        403  name
POST   api-policy-assign                   401        404        404        404        403        403        200        200        403        403  assignment
GET    api-policy                          401        404        404        404        404        404        200        200        200        200
PATCH  api-policy                          401        404        404        404        404        404        200        200        403        403  name
DELETE api-policy                          401        404        404        404        404        404        204        204        403        403
GET    api-policy-users                    401        404        404        404        404        404        200        200        200        200
POST   api-policy-impact                   401        404        404        404        404        404        200        200        403        403
GET    api-domain-sign-up                  401        404        403        403        403        403        403        200        403        403
PATCH  api-domain-sign-up                  401        404        403        403        403        403        403        200        403        403  sign-up
GET    api-invitations                     401        200        200        200        200        200        200        200        200        200
POST   api-invitations                     401        409        403        403        403        403        201        201        403        403  invitation
GET    api-invitation                      401        404        404        404        404        404        200        200        200        200
DELETE api-invitation                      401        404        404        404        404        404        204        204        403        403
GET    api-budgets                         401        200        200        200        200        200        200        200        200        200
POST   api-budgets                         401        404        404        404        403        403        201        201        403        403  budget
GET    api-budget                          401        404        404        404        200        200        200        200        200        200
PATCH  api-budget                          401        404        404        404        403        403        200        200        403        403  change
DELETE api-budget                          401        404        404        404        403        403        204        204        403        403
POST   api-budget-impact                   401        404        404        404        403        403        200        200        403        403  budget
POST   api-budget-change-impact            401        404        404        404        403        403        200        200        403        403  change
GET    api-prices                          401        200        200        200        200        200        200        200        200        200
POST   api-prices                          401        403        403        403        403        403        403        201        403        403  price
DELETE api-price                           401        403        403        403        403        403        403        204        403        403
GET    api-limits                          401        200        200        200        200        200        200        200        200        200
GET    api-keypairs                        401        200        200        200        200        200        200        200        200        200
POST   api-keypairs                        401        201        201        201        201        201        201        201        201        201  name
GET    api-keypair                         401        404        404        404        200        404        404        404        404        404
PATCH  api-keypair                         401        404        404        404        200        404        404        404        404        404  name
DELETE api-keypair                         401        404        404        404        204        404        404        404        404        404
POST   api-keypair-rotate                  401        404        404        404        200        404        404        404        404        404
GET    api-user-keypairs                   401        404        404        404        403        403        200        200        403        403
DELETE api-user-keypair                    401        404        404        404        403        403        204        204        403        403
GET    api-ssh-keys                        401        200        200        200        200        200        200        200        200        200
POST   api-ssh-keys                        401        201        201        201        201        201        201        201        201        201        ssh-key
GET    api-ssh-key                         401        404        404        404        200        404        404        404        404        404
DELETE api-ssh-key                         401        404        404        404        204        404        404        404        404        404
GET    api-user-ssh-keys                   401        404        404        404        403        403        200        200        403        403
DELETE api-user-ssh-key                    401        404        404        404        403        403        204        204        403        403
GET    api-session-templates               401        200        200        200        200        200        200        200        200        200
POST   api-session-templates               401        201        201        201        201        201        201        201        201        201        template
GET    api-session-template                401        404        404        404        200        404        404        404        404        404
PATCH  api-session-template                401        404        404        404        200        404        404        404        404        404        description
DELETE api-session-template                401        404        404        404        204        404        404        404        404        404
POST   api-start-session-template          401        404        404        404        201        404        404        404        404        404
GET    api-presets                         401        200        200        200        200        200        200        200        200        200
POST   api-presets                         401        404        404        403        403        201        201        201        403        403        preset
GET    api-preset                          401        404        404        200        200        200        200        200        200        200
PATCH  api-preset                          401        404        404        403        403        200        200        200        403        403  name
DELETE api-preset                          401        404        404        403        403        204        204        204        403        403
GET    api-arrays                          401        200        200        200        200        200        200        200        200        200
GET    api-array                           401        404        404        404        200        200        200        200        200        200
DELETE api-array                           401        404        404        404        202        202        202        202        403        403
GET    api-callback-secret                 401        404        404        404        200        404        404        404        404        404
POST   api-callback-secret                 401        201        201        201        201        201        201        201        201        201
GET    api-dotfiles                        401        200        200        200        200        200        200        200        200        200
GET    api-dotfile                         401        404        404        404        200        404        404        404        404        404        ?dotfile
PUT    api-dotfile                         401        201        201        201        200        201        201        201        201        201        dotfile
DELETE api-dotfile                         401        404        404        404        204        404        404        404        404        404        ?dotfile
GET    api-startup-script                  401        404        404        404        200        404        404        404        404        404
PUT    api-startup-script                  401        200        200        200        200        200        200        200        200        200        script
DELETE api-startup-script                  401        404        404        404        204        404        404        404        404        404
GET    api-preferences                     401        200        200        200        200        200        200        200        200        200
PATCH  api-preferences                     401        200        200        200        200        200        200        200        200        200
GET    api-images                          401        200        200        200        200        200        200        200        200        200
GET    api-storage-hosts                   401        403        403        403        403        403        403        200        403        200
POST   api-storage-hosts                   401        403        403        403        403        403        403        201        403        403  new-storage-host
GET    api-storage-host-kinds              401        403        403        403        403        403        403        200        403        403
DELETE api-storage-host                    401        403        403        403        403        403        403        409        403        403
PUT    api-storage-host-rights             401        403        403        403        403        403        403        200        403        403  storage-rights
PATCH  api-storage-host                    401        403        403        403        403        403        403        200        403        403  storage-reach
POST   api-check-storage-host              401        403        403        403        403        403        403        202        403        403
GET    api-agents                          401        200        200        200        200        200        200        200        200        200
POST   api-agents                          401        403        403        403        403        403        403        400        403        403
GET    api-agent-invitations               401        403        403        403        403        403        403        200        403        403
POST   api-agent-invitations               401        403        403        403        403        403        403        400        403        403
DELETE api-agent-invitation                401        403        403        403        403        403        403        404        403        403
GET    api-agent-ssh-key                   401        403        403        403        403        403        403        200        403        403
POST   api-agent-certificate               401        403        403        403        403        403        403        409        403        403
DELETE api-agent-certificate               401        403        403        403        403        403        403        204        403        403
POST   api-agent-state                     401        403        403        403        403        403        403        400        403        403
GET    api-agent-images                    401        200        200        200        200        200        200        200        200        200
DELETE api-agent-images                    401        403        403        403        403        403        403        404        403        403
GET    api-image-machines                  401        200        200        200        200        200        200        200        200        200
POST   api-image-machines                  401        403        403        403        403        403        403        202        403        403  bring
GET    api-resource-groups                 401        200        200        200        200        200        200        200        200        200
GET    api-queue                           401        200        200        200        200        200        200        200        200        200
GET    api-resource-group                  401        200        200        200        200        200        200        200        200        200
PATCH  api-resource-group                  401        403        403        403        403        403        403        200        403        403  description
DELETE api-resource-group                  401        403        403        403        403        403        403        409        403        403
GET    api-ticks                           401        403        403        403        403        403        403        200        403        200
GET    api-waits                           401        403        403        403        403        403        403        200        403        200
GET    api-preemptions                     401        403        403        403        403        403        403        200        403        200
GET    api-resource-group-grants           401        403        403        403        403        403        403        200        403        200
POST   api-resource-group-grants           401        403        403        403        403        403        403        201        403        403  grant
DELETE api-resource-group-grant            401        403        403        403        403        403        403        204        403        403
GET    api-resource-group-weights          401        403        403        403        403        403        403        200        403        200
PUT    api-resource-group-weights          401        403        403        403        403        403        403        200        403        403  weight
GET    api-reservations                    401        200        200        200        200        200        200        200        200        200
POST   api-reservations                    401        403        403        403        403        403        403        201        403        403  reservation
PATCH  api-reservation                     401        403        403        403        403        403        403        200        403        403  reservation-change
DELETE api-reservation                     401        403        403        403        403        403        403        204        403        403
GET    api-sharing-rules                   401        200        200        200        200        200        200        200        200        200
POST   api-sharing-rules                   401        403        403        403        403        403        403        201        403        403  sharing-rule
PATCH  api-sharing-rule                    401        403        403        403        403        403        403        200        403        403  sharing-rule-change
DELETE api-sharing-rule                    401        403        403        403        403        403        403        204        403        403
GET    api-health-rules                    401        403        403        403        403        403        403        200        403        403
PUT    api-health-rule                     401        403        403        403        403        403        403        200        403        403  health-rule
DELETE api-health-rule                     401        403        403        403        403        403        403        204        403        403
GET    api-accelerator-vendors             401        403        403        403        403        403        403        200        403        403
POST   api-accelerator-vendors             401        403        403        403        403        403        403        201        403        403  vendor
GET    api-accelerator-vendor              401        403        403        403        403        403        403        200        403        403
PATCH  api-accelerator-vendor              401        403        403        403        403        403        403        200        403        403  vendor-change
DELETE api-accelerator-vendor              401        403        403        403        403        403        403        204        403        403
POST   api-resource-group-agents           401        403        403        403        403        403        403        200        403        403  agent
POST   api-resource-groups                 401        403        403        403        403        403        403        201        403        403  name
GET    api-folders                         401        200        200        200        200        200        200        200        200        200
POST   api-folders                         401        201        201        201        201        201        201        201        201        201  name
GET    api-folder                          401        404        404        404        200        404        200        200        200        200
DELETE api-folder                          401        404        404        404        204        404        204        204        403        403
PATCH  api-folder                          401        404        404        404        200        404        200        200        403        403  another-name
GET    api-folder-trash                    401        200        200        200        200        200        200        200        200        200
POST   api-folder-clone                    401        404        404        404        201        404        201        201        403        403  another-name
POST   api-folder-clone-retry              401        404        404        404        409        404        409        409        403        403
POST   api-folder-restore                  401        404        404        404        200        404        200        200        404        404
POST   api-folder-purge                    401        404        404        404        204        404        204        204        404        404  trashed-name
GET    api-folder-usage                    401        404        404        404        200        404        200        200        200        200
PUT    api-folder-quota                    401        404        404        404        200        404        200        200        403        403  quota
GET    api-folder-limits                   401        404        404        404        200        404        200        200        200        200
GET    api-directory-usage                 401        404        404        404        200        404        200        200        403        403
POST   api-directory-usage                 401        404        404        404        202        404        202        202        403        403
GET    api-storage-status                  401        200        200        200        200        200        200        200        200        200
GET    api-administered-folders            401        200        200        200        200        200        200        200        200        200
GET    api-user-storage                    401        200        200        200        200        200        200        200        200        200
GET    api-project-storage                 401        200        200        200        200        200        200        200        200        200
GET    api-host-storage                    401        200        200        200        200        200        200        200        200        200
PUT    api-host-limits                     401        403        403        403        403        403        403        200        403        403  host-limits
POST   api-folder-directories              401        404        404        404        201        404        201        201        403        403  directory
GET    api-folder-entries                  401        404        404        404        200        404        200        200        403        403
POST   api-folder-operations               401        404        404        404        200        404        200        200        403        403  rename-file
GET    api-file-operation                  401        404        404        404        200        404        404        404        404        404
DELETE api-file-operation                  401        404        404        404        200        404        404        404        404        404
GET    api-folder-zip                      401        404        404        404        200        404        200        200        403        403  ?file
GET    api-folder-search                   401        404        404        404        200        404        200        200        403        403  ?words
GET    api-folder-text                     401        404        404        404        200        404        200        200        403        403  ?file
PUT    api-folder-text                     401        404        404        404        409        404        409        409        403        403  text ?file
GET    api-deleted-entries                 401        404        404        404        200        404        200        200        403        403
POST   api-deleted-entries                 401        404        404        404        200        404        200        200        403        403  file-paths
DELETE api-deleted-entries                 401        404        404        404        204        404        204        204        403        403
POST   api-folder-restore-entries          401        404        404        404        204        404        204        204        403        403
GET    api-folder-root                     401        404        404        404        200        404        200        200        403        403
GET    api-folder-file                     401        404        404        404        200        404        200        200        403        403
PUT    api-folder-file                     401        404        404        404        200        404        200        200        403        403
DELETE api-folder-file                     401        404        404        404        204        404        204        204        403        403
POST   api-folder-bundles                  401        404        404        404        400        404        400        400        403        403
GET    api-folder-uploads                  401        404        404        404        200        404        200        200        403        403
POST   api-folder-uploads                  401        404        404        404        412        404        412        412        403        403
GET    api-folder-upload                   401        404        404        404        200        404        404        404        403        403
PATCH  api-folder-upload                   401        404        404        404        412        404        404        404        403        403
DELETE api-folder-upload                   401        404        404        404        412        404        404        404        403        403
GET    api-folder-shares                   401        404        404        404        200        404        200        200        403        403
POST   api-folder-shares                   401        404        404        404        201        404        201        201        403        403  share
PATCH  api-folder-share                    401        404        404        404        200        404        200        200        403        403  share-right
DELETE api-folder-share                    401        404        404        404        204        404        204        204        403        403
POST   api-folder-leave                    401        404        404        404        409        404        409        409        409        409
GET    api-folder-sessions                 401        404        404        404        200        404        200        200        403        403
POST   api-folder-sessions                 401        404        404        404        200        404        200        200        403        403  mounting-api
GET    api-folder-links                    401        404        404        404        200        404        200        200        403        403
POST   api-folder-links                    401        404        404        404        201        404        201        201        403        403  link
DELETE api-folder-link                     401        404        404        404        204        404        204        204        403        403
GET    api-folder-invitations              401        200        200        200        200        200        200        200        200        200
POST   api-accept-share                    401        404        404        404        404        200        404        404        404        404
POST   api-decline-share                   401        404        404        404        404        204        404        404        404        404
GET    api-session-list                    401        200        200        200        200        200        200        200        200        200
POST   api-session-list                    401        404        404        201        201        201        403        403        403        403  session
POST   api-session-check                   401        404        404        200        200        200        403        403        403        403  session
GET    api-session-detail                  401        404        404        404        200        200        200        200        200        200
DELETE api-session-detail                  401        404        404        404        202        202        202        202        403        403
GET    api-session-callbacks               401        404        404        404        200        200        200        200        200        200
POST   api-session-extend                  401        404        404        404        201        201        201        201        403        403
PUT    api-session-priority                401        404        404        404        409        403        409        409        403        403        priority
GET    api-session-why                     401        404        404        404        200        200        200        200        200        200
GET    api-session-logs                    401        404        404        404        200        200        200        200        403        403
GET    api-session-metrics                 401        404        404        404        200        200        200        200        200        200
POST   api-withhold-device                 401        403        403        403        403        403        403        200        403        403  because
POST   api-release-device                  401        403        403        403        403        403        403        409        403        403
DELETE api-device                          401        403        403        403        403        403        403        409        403        403
GET    api-device-events                   401        403        403        403        403        403        403        200        403        200
PUT    api-layout                          401        403        403        403        403        403        403        409        403        403  layout
PUT    api-model-layout                    401        403        403        403        403        403        403        202        403        403  model-layout
GET    api-session-devices                 401        404        404        404        200        200        200        200        200        200
GET    api-agent-devices                   401        200        200        200        200        200        200        200        200        200
GET    api-agent-metrics                   401        200        200        200        200        200        200        200        200        200
GET    api-devices                         401        403        403        403        403        403        403        200        403        200
GET    api-session-files                   401        404        404        404        200        403        403        403        403        403  ?home
GET    api-session-stat                    401        404        404        404        200        403        403        403        403        403  ?home
GET    api-session-content                 401        404        404        404        200        403        403        403        403        403  ?profile
PUT    api-session-content                 401        404        404        404        200        403        403        403        403        403  ?profile
GET    api-session-archive                 401        404        404        404        200        403        403        403        403        403  ?home
PUT    api-session-archive                 401        404        404        404        200        403        403        403        403        403  tar  ?home
GET    api-session-expected-start          401        404        404        404        200        200        200        200        200        200
GET    api-session-history                 401        404        404        404        200        200        200        200        200        200
POST   api-app-token                       401         404        404        404        201        403        403        403        403        403
GET    api-schema                          401        200        200        200        200        200        200        200        200        200
"""

# Beside Django's routes: the terminal, whose cells are codes with which the websocket is closed or what it does instead;
# and an app on its own host, whose cells are the answer after all redirects.
GATEWAY = """
WS     ws-terminal                         4401       4404       4404       4404       open       4403       4403       4403       4403       4403
WS     ws-exec                             4401       4404       4404       4404       open       4403       4403       4403       4403       4403
GET    app-host                            in         404        404        404        200        403        403        403        403        403
GET    app-port                            in         404        404        404        200        403        403        403        403        403
"""

# The same for the owner's two programs, in the order of TOKEN_COLUMNS. Terminals are for browsers, and apps take tokens of
# their own alone.
GATEWAY_TOKENS = """
WS     ws-terminal                         4401       4401
WS     ws-exec                             4403       4401
GET    app-host                            401        401
GET    app-port                            401        401
"""

# What somebody who looks at the portal as the owner (accounts.logins.impersonation) does not see, beside all of allauth and Django
# admin: what is in files, logs and sessions, and how the owner signs in. Else they see what the owner sees.
PRIVATE = frozenset({
    "api-logins", "security", "oidc", "oidc-callback", "app-open", "app-authorize", "session-terminal", "session-log", "folder", "folder-usage",
    "folder-download", "folder-file", "folder-image", "folder-deleted", "folder-empty-deleted", "folder-delete-entry", "public-link-download", "api-folder-root", "api-folder-file", "api-directory-usage", "api-session-logs",
    "api-folder-entries", "api-file-operation",
    "api-folder-zip", "api-folder-search", "api-folder-text",
    "api-deleted-entries", "api-session-files", "api-session-stat", "api-session-content", "api-session-archive",
    "api-folder-bundles", "api-folder-uploads", "api-folder-upload",
    "callbacks", "api-callback-secret", "new-template",
    "dotfiles", "api-dotfiles", "api-dotfile", "api-startup-script",
})  # fmt: skip
WAYS_OUT = frozenset({"account_logout", "stop-viewing"})
OPEN_TO_EVERYBODY = frozenset({"api-health"})


@dataclass(frozen=True, slots=True)
class Row:
    method: str
    route: str
    cells: dict[str, str]
    body: str = ""
    query: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.route}"


def parse(table: str) -> list[Row]:
    """Rows of a table. Raises ValueError for a row that leaves a column empty."""
    rows = []
    for line in table.strip().splitlines():
        method, route, *words = line.split()
        cells = dict(zip(COLUMNS, words, strict=False))
        if len(cells) < len(COLUMNS) or not all(
            cell.isdigit() or cell in {SIGN_IN, OPEN} for cell in cells.values()
        ):
            raise ValueError(f"Fill all {len(COLUMNS)} columns of {method} {route}.")
        extra = words[len(COLUMNS) :]
        rows.append(
            Row(
                method,
                route,
                cells,
                body="".join(word for word in extra if not word.startswith("?")),
                query="".join(word[1:] for word in extra if word.startswith("?")),
            )
        )
    return rows


def with_tokens(row: Row) -> Row:
    """What the owner's two programs get: a token that has expired is no token, and one that may only read changes
    nothing."""
    is_open = row.route in OPEN_TO_EVERYBODY
    reader = row.cells["owner"] if is_open or row.method == "GET" else "403"
    expired = row.cells["owner"] if is_open else "401"
    return replace(row, cells={**row.cells, "reader": reader, "expired": expired})


# WebDAV accepts no cookie, only tokens.
BY_TOKEN_ALONE = {row.route for row in parse(DAV)}
REST_ROWS = [with_tokens(row) for row in parse(REST) + parse(DAV)]
OURS = parse(PAGES) + REST_ROWS
THIRD_PARTY = parse(ACCOUNT) + parse(ADMIN)
TERMINAL, EXEC, APP, APP_BY_ADDRESS = parse(GATEWAY)
TOKENS_AT_GATEWAY = {
    route: dict(zip(TOKEN_COLUMNS, cells, strict=True))
    for _method, route, *cells in map(str.split, GATEWAY_TOKENS.strip().splitlines())
}
