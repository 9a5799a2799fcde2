"""What a payload shows, and what nobody gets through it."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from web_site import pool_with, served

from opcal.web.labelling import media
from opcal.web.security import Refusal

TRAVERSALS = [
    *(
        before + "/".join([up] * n) + "/" + target
        for up in ("..", "%2e%2e", "..%2f", "....//", "..\\", "%252e%252e", "..;", "．．")
        for n in (1, 6)
        for before, target in (("", "etc/passwd"), ("/", "session.db"), ("images/", "access.json"))
    ),
    "/etc/passwd",
    "//etc/passwd",
    "file:///etc/passwd",
    "~/.ssh/id_rsa",
    ".",
    "..",
    "media",
    "0.png",
    "0.png\0.jpg",
    "0\x00",
    "\\\\server\\share\\x.png",
    "access.json",
    "session.db",
    "a" * 5000,
    "﹒﹒/﹒﹒/etc/passwd",
    "0/../../access.json",
]


@pytest.fixture
def pictures(tmp_path):
    """Items 0 to 9 are honest; from 10 on the pool's payload itself tries to lead out of the folder."""
    folder, secret = tmp_path / "pictures", tmp_path / "secret.png"
    folder.mkdir()
    Image.new("L", (20, 10), 99).save(folder / "a.png")
    Image.fromarray((np.arange(200).reshape(10, 20) * 300).astype(np.uint16)).save(folder / "deep.tiff")
    (folder / "vector.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    (folder / "lies.png").write_text("<html><script>alert(1)</script></html>")
    Image.new("1", (8000, 7000)).save(folder / "huge.png")
    Image.new("L", (2, 2)).save(secret)
    (folder / "link.png").symlink_to(secret)
    payload = ["a.png", "deep.tiff", "vector.svg", "lies.png", "huge.png", "gone.png", "http://x.example/a.png", None]
    bad = ["link.png", "../secret.png", str(secret), "../ward/access.json", "/etc/hostname.png", "a.png\0.png"]
    payload = [*payload, "some words", "<b>words</b>", *bad]
    with served(tmp_path / "ward", pool_with([*payload, *["words"] * (60 - len(payload))])) as site:
        site.desk.media = folder
        yield site.as_("ann")


def test_an_honest_image_comes_as_it_is_and_can_run_nothing(pictures):
    answer = pictures.get("/media", params={"item": "0"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/png"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert pictures.get("/media/0").content == answer.content


def test_deep_greys_come_as_png_over_their_whole_range(pictures):
    from io import BytesIO

    answer = pictures.get("/media", params={"item": "1"})
    shown = np.asarray(Image.open(BytesIO(answer.content)))
    assert answer.headers["content-type"] == "image/png"
    assert (shown.min(), shown.max()) == (0, 255)


@pytest.mark.parametrize(("item", "status"), [("2", 404), ("3", 415), ("4", 413), ("5", 404), ("6", 404), ("7", 404)])
def test_what_is_no_image_is_refused(pictures, item, status):
    for path in ("/media", "/thumbnail"):
        answer = pictures.get(path, params={"item": item})
        assert answer.status_code == status
        assert "<" not in answer.text


@pytest.mark.parametrize("item", [str(i) for i in range(10, 16)])
def test_a_payload_cannot_lead_out_of_the_folder(pictures, item):
    for path in ("/media", "/thumbnail"):
        assert pictures.get(path, params={"item": item}).status_code == 404


def test_at_least_forty_traversals_find_nothing(pictures):
    assert len(set(TRAVERSALS)) >= 40
    for text in TRAVERSALS:
        found = {
            pictures.get("/media", params={"item": text}).status_code,
            pictures.get("/thumbnail", params={"item": text}).status_code,
        }
        if "\0" not in text and text not in (".", "..") and not text.startswith("//"):  # those are no path of ours
            found.add(pictures.get(f"/media/{text}").status_code)
        assert found <= {404}, text


def test_without_a_folder_no_image_is_found():
    with pytest.raises(Refusal):
        media.located(None, "a.png")


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ("scans/7.PNG", "image"),
        ("note.txt", "file"),
        ("https://x.example/7", "link"),
        ("javascript:alert(1)", "text"),
        ("data:text/html,<script>", "text"),
        ("x.svg", "text"),
        ("x.html", "text"),
        ("He said: see a.png\nand b.png", "text"),
        ("", "nothing"),
        (None, "nothing"),
    ],
)
def test_a_payload_is_shown_as_what_it_is(payload, kind):
    assert media.what_it_is(payload) == kind


IDS = [
    "cafe\u0301",
    "caf\u00e9",
    "🫁👩🏽‍⚕️",
    "صورة-١",
    "<script>alert(1)</script>",
    "a/b/../c",
    "..",
    "?item=0&x",
    "#%00",
    "\"quoted\" 'both'",
    "x" * 1024,
    "é" * 512,
    " spaces ",
    "\u202egnp.exe",
]


def test_any_id_and_any_class_name_comes_back_as_it_was(tmp_path):
    Image.new("L", (4, 4), 7).save(tmp_path / "a.png")
    classes = ['"><img src=x onerror=alert(1)>', "it's", "naïve", "naı\u0308ve"]
    pool = pool_with(["a.png"] * len(IDS), ids=IDS, classes=classes, n=len(IDS))
    with served(tmp_path / "ward", pool, budget=None) as site:
        site.desk.media = tmp_path
        client = site.as_("ann")
        assert client.get("/api/me").json()["classes"] == classes
        while tasks := client.post("/api/lease", json={"k": 9}).json()["tasks"]:
            for task in tasks:
                assert client.get("/media", params={"item": task["item"]}).status_code == 200
                body = {"id": f"id {task['item']}"[:200], "item": task["item"], "label": classes[1]}
                assert client.post("/api/answers", json=body).json()["item"] == task["item"]
        assert {row["item"] for row in client.get("/api/mine").json()} == set(IDS)
        assert {row["item"] for row in site.session.answers()} == set(IDS)
        page = client.get("/").text
        assert "onerror" not in page
