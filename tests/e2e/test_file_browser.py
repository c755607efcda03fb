"""People work with files in the page of a folder: by keys and pointer, with undo, search, preview and editor."""

import io
import json
import os
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Browse
from tests.e2e.person import Person
from tests.e2e.test_accessibility import AXE

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

SCRIPT = "<script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\">"


def names(page: Page) -> list[str]:
    return page.locator(".browser-row .browser-name > :is(a, span)").all_inner_texts()


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("BERTH_PICTURES"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def test_files_are_selected_renamed_moved_deleted_and_brought_back(browse: Browse, user: Person) -> None:
    folder = user.make_folder("walk")
    for name in ("b.txt", "a.txt", "c “q”.txt"):
        user.put_file(folder, name, name)
    page = browse(user)
    page.goto(f"/data/{folder}/")
    grid = page.get_by_role("grid", name="Files")
    status = page.locator("[data-browser-status]")
    expect(grid.get_by_role("row")).to_have_count(4)

    page.get_by_text("New", exact=True).click()
    page.get_by_label("New directory").fill("deep")
    page.get_by_role("button", name="Create directory").click()
    expect(grid.get_by_role("link", name="deep")).to_be_visible()

    page.locator('.browser-row[data-at="1"]').focus()
    page.keyboard.press("F2")
    page.get_by_label("New name of a.txt").fill("renamed.txt")
    page.keyboard.press("Enter")
    expect(grid.get_by_role("link", name="renamed.txt")).to_be_visible()

    grid.get_by_role("row", name="b.txt").drag_to(grid.get_by_role("row", name="deep"))
    expect(grid.get_by_role("link", name="b.txt")).to_have_count(0)

    page.locator('.browser-row[data-at="1"]').focus()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+End")
    expect(page.locator("[data-browser-count]")).to_have_text("3 selected")
    page.keyboard.press("Delete")
    expect(page.get_by_text("Nothing here yet")).to_be_visible()
    status.get_by_role("button", name="Undo").click()
    expect(grid.get_by_role("link", name="renamed.txt")).to_be_visible()

    page.get_by_role("searchbox").fill("b.T")
    page.keyboard.press("Enter")
    expect(status).to_have_text("1 found.")
    assert names(page) == ["deep/b.txt"]


def test_a_list_of_ten_thousand_is_scrolled_and_accessible(browse: Browse, user: Person) -> None:
    folder = user.make_folder("many")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as written:
        for number in range(10_000):
            written.writestr(f"file-{number:05}.txt", "")
    user.put_file(folder, "many.zip", archive.getvalue())
    page = browse(user)
    page.goto(f"/data/{folder}/")
    page.locator(".browser-row").filter(has_text="many.zip").click(button="right")
    page.get_by_role("menuitem", name="Unpack").click()
    page.get_by_role("link", name="many", exact=True).click()
    expect(page.locator("[data-total]")).to_have_text("10,000 entries")

    page.locator('.browser-row[data-at="0"]').focus()
    page.keyboard.press("End")
    expect(page.get_by_role("link", name="file-09999.txt")).to_be_visible()
    assert page.locator(".browser-row").count() < 100
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run()")["violations"]
    assert [each["id"] for each in found if each["impact"] in {"serious", "critical"}] == []


def test_files_are_shown_and_edited_and_nothing_in_them_runs(browse: Browse, user: Person) -> None:
    folder = user.make_folder("shown")
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": [f"# Title\n{SCRIPT}\n[bad](javascript:alert(1))"]},
            {
                "cell_type": "code",
                "source": "print(1)",
                "execution_count": 1,
                "outputs": [
                    {"output_type": "display_data", "data": {"text/html": SCRIPT}},
                    {"output_type": "stream", "text": ["1\n"]},
                ],
            },
        ]
    }
    user.put_file(folder, "n.ipynb", json.dumps(notebook))
    user.put_file(folder, "r.md", f"# Read me\n\n{SCRIPT}\n\n![x](http://elsewhere.example/x.png)\n")
    user.put_file(folder, "t.csv", f"a,b\n1,{SCRIPT}\n")
    user.put_file(folder, "s.svg", f"<svg xmlns='http://www.w3.org/2000/svg'>{SCRIPT}</svg>")
    user.put_file(folder, "x.png", SCRIPT)
    user.put_file(folder, "e.py", "print('old')\n")
    page = browse(user)
    for name, text in (
        ("n.ipynb", "print(1)"),
        ("r.md", "Read me"),
        ("t.csv", "onerror"),
        ("s.svg", "onerror"),
    ):
        page.goto(f"/data/{folder}/file/?path={name}")
        expect(page.get_by_text(text).first).to_be_visible()
        expect(page).to_have_title(f"{name} · Berth")
        assert page.locator("#content img[src^=http]").count() == 0
        assert page.locator("#content a[href^=javascript]").count() == 0
    answer = page.goto(f"/data/{folder}/image/?path=x.png")
    assert answer is not None
    assert answer.status == 409

    page.goto(f"/data/{folder}/file/?path=e.py")
    editor = page.get_by_role("textbox", name="e.py")
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("print('new')")
    page.keyboard.press("Control+s")
    expect(page.locator("[data-editor-status]")).to_have_text("Saved.")
    user.put_file(folder, "e.py", "changed elsewhere")
    page.keyboard.type("more")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("[data-editor-status]")).to_contain_text("Somebody has changed the file")
    expect(editor).to_contain_text("print('new')more")
