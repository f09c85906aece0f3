"""The stranger who follows pages: what lasts from one command to the next, and how a failure is named."""

import os

import pytest

from tests.docs.follow import Failure, Reader
from tests.docs.pages import Step


def followed(tmp_path, *typed, timeout_s=20.0):
    """Types commands one after another, line by line of a page."""
    reader = Reader(tmp_path, dict(os.environ), timeout_s)
    for line, command in enumerate(typed, start=1):
        reader.do(Step("page.md", line, command=command))


def test_folder_and_variables_last(tmp_path):
    """As in one shell."""
    followed(tmp_path, "mkdir inner && cd inner", "export COLOR='dark blue'", 'echo "$COLOR" > said')
    assert (tmp_path / "inner" / "said").read_text() == "dark blue\n"


def test_files_are_saved_where_the_reader_is(tmp_path):
    """A file of a page lies in the folder of its next command."""
    reader = Reader(tmp_path, dict(os.environ), 20.0)
    reader.do(Step("page.md", 1, file="a.txt", text="hello\n"))
    reader.do(Step("page.md", 2, command="grep hello a.txt > found"))
    assert (tmp_path / "found").read_text() == "hello\n"


def test_a_failure_names_page_line_and_command(tmp_path):
    """With what was printed."""
    with pytest.raises(Failure, match=r"page\.md:2: ended with exit code 3\n  .*exit 3\)\nlost"):
        followed(tmp_path, "true", "(echo lost; exit 3)")


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path):
    """Its children too: they hold the pipe that is read to its end."""
    with pytest.raises(Failure, match=r"page\.md:1: took longer than 0\.5 s"):
        followed(tmp_path, "sleep 60 & sleep 60; wait", timeout_s=0.5)
