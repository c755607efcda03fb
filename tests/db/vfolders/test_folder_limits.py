"""Limits of the number of folders per user, project and domain."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import connection

from accounts.models import Project, User
from common.errors import LimitExceeded
from tests.factories import actor_for, make_project, make_user
from tests.factories_folders import make_storage_host
from tests.factories_limits import limit, use_of
from vfolders.models import VFolder
from vfolders.services import create_folder
from vfolders.trash import delete_folder


@pytest.fixture
def project(db: None, tmp_path: Path) -> Project:
    make_storage_host(tmp_path)
    return make_project()


@pytest.fixture
def owner(project: Project) -> User:
    return make_user(member_of=project)


@pytest.mark.django_db
def test_folders_are_limited_for_their_owner_and_the_domain(project: Project, owner: User) -> None:
    limit(owner, max_folders=1)
    limit(project, max_folders=1)
    actor = actor_for(owner)
    own = create_folder(actor=actor, name="own")
    create_folder(actor=actor, name="shared", project=project.name)
    limit(project.domain, max_folders=2)

    with pytest.raises(LimitExceeded) as refused:
        create_folder(actor=actor, name="more")
    assert [(each["level"], each["used"]) for each in refused.value.limits] == [("domain", 2), ("user", 1)]
    assert "Your account has reached its limit of folders (1 of 1)." in refused.value.message

    delete_folder(actor=actor, folder_id=own.pk)
    create_folder(actor=actor, name="more")
    assert use_of(project.domain) == {"folders": 2}


@pytest.mark.django_db
def test_transferred_folder_counts_for_its_new_owner_even_above_a_limit(
    project: Project, owner: User
) -> None:
    heir = make_user(member_of=project)
    limit(heir, max_folders=0)
    folder = create_folder(actor=actor_for(owner), name="own")

    VFolder.objects.filter(pk=folder.pk).update(owner=heir)

    assert (use_of(owner), use_of(heir), use_of(project.domain)) == ({}, {"folders": 1}, {"folders": 1})


@pytest.mark.django_db(transaction=True)
def test_folders_made_at_the_same_moment_do_not_get_around_the_limit(project: Project, owner: User) -> None:
    limit(owner, max_folders=2)

    def make(number: int) -> None:
        try:
            create_folder(actor=actor_for(owner), name=f"folder-{number}")
        except LimitExceeded:
            pass
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(make, range(12)))
    assert VFolder.objects.count() == use_of(owner)["folders"] == 2
