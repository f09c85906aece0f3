"""README and tutorials: their commands parse, their files are there by then, and their numbers hold."""

import json
import re
import runpy
import shlex
import tomllib
from pathlib import Path

import pytest

from gnnplan.planner.cli import _parser
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.job import Job
from tests.docs.pages import PAGES, ROOT, Block, Step, blocks, commands, steps

_CLAIM = re.compile(
    r"^\| (?P<claim>[^|]+) \| (?P<number>[\d.]+) \| `(?P<benchmark>\w+)` `(?P<key>\w+)` \| (?P<taken>[^|]+) \|$",
    re.MULTILINE,
)
_LAST_OF_FIRST_EDITION = "2026-11-23"
_LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
_OUTPUTS = {"-o", "--output", "--perfetto", "--picture", "--dot"}
_WRITTEN = {  # in the folder that -o names
    "run": ("measured.json", "model.pt", "start_one.sh", "start_two.sh"),
    "train": ("plan.json", "measured.json", "model.pt"),
}


def verbs_of(page: str) -> list[tuple[Step, list[str]]]:
    """Every call of gnnplan on a page that is run, as words."""
    calls = [(step, shlex.split(step.command)) for step in steps(page) if step.command]
    return [(step, words) for step, words in calls if words[0] == "gnnplan"]


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_those_of_the_command_line(page):
    """A verb or an option that is gone is noticed here."""
    for step, words in verbs_of(page):
        try:
            _parser().parse_args(words[1:])
        except SystemExit:
            pytest.fail(f"{step.where}: {step.command}")
    assert any(step.command for step in steps(page))


@pytest.mark.parametrize("page", PAGES)
def test_files_follow_from_each_other(page):
    """What a command reads is in the repository, was saved by the reader, or was written by a command before it."""
    there: set[str] = {step.file for step in steps(page) if step.file}
    for step, words in verbs_of(page):
        outputs = {words[n + 1] for n, word in enumerate(words[:-1]) if word in _OUTPUTS}
        inputs = {word for word in words[2:] if "/" in word or word.endswith((".toml", ".json"))} - outputs
        for name in inputs:
            assert name in there or (ROOT / name).exists(), f"{step.where}: {name} is not there yet"
        there |= outputs | {f"{each}/{name}" for each in outputs for name in _WRITTEN.get(words[1], ())}


@pytest.mark.parametrize("page", PAGES)
def test_jobs_and_clusters_of_a_page_are_valid(page):
    """Files that the reader is told to save are read without a fault."""
    for step in steps(page):
        if not step.file.endswith(".toml"):
            continue
        raw = tomllib.loads(step.text)
        (Job if "graph" in raw else Cluster).parse(raw, where=step.where)


def test_claims_of_the_readme_are_in_the_results():
    """Each number is that of the benchmark's key, to the digits that are written, with its day and edition."""
    found = list(_CLAIM.finditer((ROOT / "README.md").read_text(encoding="utf-8")))
    assert len(found) >= 10
    for claim in found:
        results = json.loads((ROOT / "benchmarks" / "results" / f"{claim['benchmark']}.json").read_text())
        unit = 10.0 ** -len(claim["number"].partition(".")[2])
        assert abs(results[claim["key"]] - float(claim["number"])) <= unit / 2, claim["claim"]
        edition = ", first edition" if results["date"] <= _LAST_OF_FIRST_EDITION else ""
        assert claim["taken"] == results["date"] + edition, claim["claim"]


def test_the_answer_of_the_readme_is_of_one_run():
    """Table and picture were made together, and the table is that of the figures that were kept."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(ROOT / "docs" / "take_answer.py"))["written"](page) == page


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_to_files(page):
    """Links between pages of the repository, as GitHub follows them."""
    for target in _LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        assert ((ROOT / page).parent / target).exists(), target


def test_every_page_with_commands_is_known():
    """No page that has its reader type something is left out of what a stranger follows."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert set(PAGES) == {
        path.relative_to(ROOT).as_posix() for path in pages if "\n```sh\n" in path.read_text(encoding="utf-8")
    }


def test_blocks_have_their_lines_and_what_is_said_of_them():
    """Lines count from 1, and a comment is of the block right below it."""
    saved = "one\n<!-- file: a.py -->\n```python\nx = 1\n```\n\n"
    page = saved + "<!-- not run: no root -->\n```sh\nls\n```\n\n```sh\npwd\n```\n"
    assert list(blocks("p.md", page)) == [
        Block("p.md", 4, "python", "x = 1\n", file="a.py"),
        Block("p.md", 9, "sh", "ls\n", not_run="no root"),
        Block("p.md", 13, "sh", "pwd\n"),
    ]


def test_a_command_goes_on_after_a_backslash():
    """Comments and empty lines are no commands."""
    block = Block("p.md", 3, "sh", "# say\necho a \\\n  b\n\npwd\n")
    assert [(step.line, step.command) for step in commands(block)] == [(4, "echo a \\\n  b"), (7, "pwd")]


def test_what_a_page_says_is_not_run_is_no_step(tmp_path):
    """A block that needs what is not there is left out."""
    (tmp_path / "p.md").write_text("<!-- not run: why -->\n```sh\nfalse\n```\n", encoding="utf-8")
    assert not list(steps("p.md", Path(tmp_path)))
