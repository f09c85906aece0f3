"""Python files of the user's own: read to know what they hold, and imported where they are to run."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from gnnplan.profiles.errors import UserError


def digest_of(path: Path, what: str) -> str:
    """SHA-256 of a file, in hex digits.

    Args:
        what: the job's key that names the file, for errors.
    """
    return hashlib.sha256(_read(path, what)).hexdigest()


def function_of(path: Path, name: str, what: str) -> Callable[..., Any]:
    """A function of a file, which is imported: it runs with the rights of whoever calls this.

    Raises `UserError` where there is none, or the file cannot be imported.
    """
    found = getattr(_imported(path, what), name, None)
    if not callable(found):
        raise UserError(f"{path}: there is no function {name!r}; {what} names FILE.py:FUNCTION")
    return found


def line_in(path: Path, error: BaseException) -> str:
    """The last line of the file that an error came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f"{path}:{frames[-1].lineno}" if frames else str(path)


def _imported(path: Path, what: str) -> ModuleType:
    """The file as a Python module, which finds its neighbours as a script does."""
    _read(path, what)
    name = f"gnnplan_model_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path}: {what} must name a Python file, FILE.py:FUNCTION")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{line_in(path, error)}: it cannot be imported: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: the file of {what} cannot be read: {error.strerror}") from error
