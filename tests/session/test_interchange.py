"""Answers out to files and in again."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from conftest import make_case

import opcal
from opcal.errors import BadLines, ConflictingAnswer, InvalidInput
from opcal.session import Session
from opcal.session.interchange import label_studio_tasks, read, write

CASE = make_case(n=90)
POOL = opcal.Pool.from_arrays(
    CASE.features, CASE.logits, ids=[f"scan,{i}" for i in range(90)], classes=["a", "b", "1", "wrong"]
)


def begun(folder, **more):
    made = Session.start(POOL, folder, budget=24, **more)
    made.background = False
    return made


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Two annotators, second opinions, a tie decided, a skip, a correction, "outside", "right" and "wrong"."""
    with begun(tmp_path_factory.mktemp("x") / "s", overlap=0.4, disputes="arbiter") as session:
        for _ in range(12):
            for who in ("ann", "bob"):
                for task in session.lease(who, 1):
                    say = int(CASE.labels[task.position])
                    session.answer(who, task.item, (say + 1) % 4 if who == "bob" and task.position % 3 == 0 else say)
        for tied in session.disagreements()[:1]:
            session.resolve("chief", tied.item, 2)
        session.answer("ann", "scan,0", opcal.OUTSIDE)
        session.answer("ann", "scan,1", correct=True)
        session.answer("ann", "scan,2", correct=False)
        session.answer("ann", "scan,3", 1)
        session.answer("ann", "scan,3", 3)
        session.answer("bob", "scan,4", skip=True)
        yield session


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "json"])
def test_an_export_read_into_a_new_session_gives_the_same_calibrator(full, tmp_path, suffix):
    file = tmp_path / f"answers.{suffix}"
    write(full.answers(), file, full.settings)
    with begun(tmp_path / "again", overlap=0.4, disputes="arbiter") as again:
        again.record(read(file, again, "nobody"))
        assert again.digest() == full.digest()
        kept = ("annotator", "item", "answer", "time", "id")
        rows = [[{k: r[k] for k in kept} for r in s.answers()] for s in (full, again)]
        key = lambda r: (r["item"], r["annotator"])  # noqa: E731
        assert sorted(rows[0], key=key) == sorted(rows[1], key=key)
        again.record(read(file, again, "nobody"))  # a second time is nothing new
        assert len(again.answers()) == len(full.answers())


def test_parquet_has_the_columns_of_the_contract(full, tmp_path):
    write(full.answers(), tmp_path / "x.parquet", full.settings)
    table = pq.read_table(tmp_path / "x.parquet")
    assert {"annotator", "item", "answer", "purpose", "inclusion", "time"} <= set(table.column_names)
    assert set(table["purpose"].to_pylist()) == {"audit", "chosen", "own", "arbiter"}


def test_every_mistake_of_a_file_is_listed_by_its_line_and_nothing_is_stored(tmp_path):
    file = tmp_path / "bad.csv"
    file.write_text(
        "item,answer,annotator\n"
        '"scan,1",a,ann\n'
        "nobody,a,ann\n"
        '"scan,2",zebra,ann\n'
        ",a,ann\n"
        '"scan,3",,ann\n'
        '"scan,1",b,ann\n'
        '"scan,4",a,ann,surplus\n'
    )
    with begun(tmp_path / "s") as session:
        with pytest.raises(BadLines, match="6 lines are wrong") as refused:
            read(file, session, "me")
        assert [number for number, _ in refused.value.problems] == [3, 4, 5, 6, 7, 8]
        assert session.answers() == []


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.csv", "who,what\n1,2\n", "expected item and answer"),
        ("x.csv", "", "expected item and answer"),
        ("x.jsonl", '{"item": "scan,1", "answer": "a"}\nnot json\n', "line 2: no JSON"),
        ("x.parquet", "PAR?", "cannot be read"),
        ("x.txt", "", "known are .csv"),
        ("x.json", "{}", "no export of Label Studio"),
        ("x.json", "[", "cannot be read"),
    ],
)
def test_files_that_are_no_answers_are_refused_by_name(tmp_path, name, content, says):
    (tmp_path / name).write_text(content)
    with begun(tmp_path / "s") as session, pytest.raises((InvalidInput, BadLines), match=says):
        read(tmp_path / name, session, "me")


def test_class_names_go_before_words_and_numbers(tmp_path):
    (tmp_path / "x.csv").write_text('\ufeffitem,label\n"scan,1",wrong\n"scan,2",1\n"scan,3",0\n"scan,4",OUTSIDE\n')
    with begun(tmp_path / "s") as session:
        session.record(read(tmp_path / "x.csv", session, "me"))
        assert session.calibrator().answers_.labels.tolist() == [3, 2, 0, opcal.OUTSIDE]
        assert {r["annotator"] for r in session.answers()} == {"me"}


LABEL_STUDIO = [
    {
        "id": 7,
        "data": {"item": "scan,1", "payload": "1.png"},
        "annotations": [
            {
                "id": 31,
                "completed_by": {"id": 2, "email": "ann@ward"},
                "was_cancelled": False,
                "created_at": "2026-03-01T10:00:00Z",
                "updated_at": "2026-03-01T10:00:05Z",
                "result": [{"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": ["b"]}}],
            }
        ],
        "predictions": [],
    },
    {
        "id": 8,
        "data": {"item": "scan,2"},
        "annotations": [{"id": 32, "completed_by": 3, "was_cancelled": True, "result": []}],
    },
    {"id": 9, "data": {"item": "scan,3"}, "annotations": []},
]
MINIMAL = [
    {"id": 7, "item": "scan,1", "label": "b", "annotator": 2, "annotation_id": 31, "updated_at": "2026-03-01T10:00:05Z"}
]


def test_exports_of_label_studio_are_read_in_both_shapes_and_twice_is_once(tmp_path):
    (tmp_path / "full.json").write_text(json.dumps(LABEL_STUDIO))
    (tmp_path / "min.json").write_text(json.dumps(MINIMAL))
    with begun(tmp_path / "a") as session:
        for _ in range(2):
            session.record(read(tmp_path / "full.json", session, "me"))
        rows = session.answers()
        assert [(r["item"], r["answer"], r["annotator"]) for r in rows] == [
            ("scan,1", "b", "ann@ward"),
            ("scan,2", "skip", "label-studio 3"),
        ]
        assert sum(e.kind in ("answer", "skip") for e in session.events()) == 2
    with begun(tmp_path / "b") as session:
        session.record(read(tmp_path / "min.json", session, "me"))
        assert session.answers()[0]["answer"] == "b"


def test_tasks_for_label_studio_hide_the_prediction_of_audit_items(tmp_path):
    with begun(tmp_path / "s") as session:
        tasks = session.lease("ann", 8)
        made = label_studio_tasks(tasks, session.settings)
    assert ["predictions" in m for m in made] == [not t.blind for t in tasks]
    assert any(t.blind for t in tasks)
    shown = next(m for m in made if "predictions" in m)
    (result,) = shown["predictions"][0]["result"]
    assert result["type"] == "choices"
    assert result["value"]["choices"][0] in POOL.classes


def test_an_id_that_stands_for_two_answers_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text('item,answer,id\n"scan,1",a,one\n"scan,2",b,one\n')
    with begun(tmp_path / "s") as session:
        with pytest.raises(ConflictingAnswer, match="two answers"):
            session.record(read(tmp_path / "x.csv", session, "me"))
        assert session.answers() == []
