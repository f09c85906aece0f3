"""Base of the contracts that pass between the folders: frozen, strict, versioned JSON documents."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gnnplan.profiles.errors import UserError
from gnnplan.profiles.limits import MAX_DOCUMENT_BYTES, MAX_TOML_BYTES

_SHOWN_CHARACTERS = 120
_Kind = TypeVar("_Kind", bound="Shown")


class _Short:
    """Stands for a value that is too long to print."""

    def __init__(self, value: Any) -> None:
        count = f" of {len(value)}" if hasattr(value, "__len__") else ""
        self._words = f"<{type(value).__name__}{count}>"

    def __repr__(self) -> str:
        return self._words


class Contract(BaseModel):
    """A frozen value object that refuses unknown keys, NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Shown(Contract):
    """A contract that people look at: its repr is short, and notebooks show tables."""

    def _repr_html_(self) -> str | None:
        """What a notebook shows, where somebody said how (`show_as_html`); else its repr."""
        shown = _AS_HTML.get(type(self))
        return shown(self) if shown else None

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What a repr shows: of long values only what they are."""
        for name, value in super().__repr_args__():
            yield name, value if len(repr(value)) <= _SHOWN_CHARACTERS else _Short(value)


class Document(Shown):
    """A contract that lives in a file of its own, with `kind` and `schema_version`.

    `kind` and `schema_version` are checked before anything else, so that the wrong file or a
    file of another version is named as such and not as a list of missing keys.
    """

    KIND: ClassVar[str]
    VERSION: ClassVar[int] = 1
    MADE_BY: ClassVar[str] = ""

    kind: str = ""
    schema_version: int = 1

    def model_post_init(self, _context: Any) -> None:
        object.__setattr__(self, "kind", self.KIND)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads a `.json` or `.toml` file; `UserError` names the file, the key and the fault."""
        path = Path(path)
        return cls.parse(read_mapping(path), where=str(path))

    @classmethod
    def parse(cls, raw: dict[str, Any], *, where: str) -> Self:
        """Validates an already decoded document; `where` names its origin in errors."""
        kind = raw.get("kind", cls.KIND)
        if kind != cls.KIND:
            raise UserError(f"{where}: this is a {kind!r} file, a {cls.KIND!r} file is needed here")
        version = raw.get("schema_version")
        if version is None:
            raise UserError(f"{where}: schema_version is missing; add schema_version = {cls.VERSION}")
        if version != cls.VERSION:
            raise UserError(
                f"{where}: schema_version is {version!r}, this gnnplan reads {cls.VERSION}; "
                f"make the {cls.KIND} again with this version{f': {cls.MADE_BY}' if cls.MADE_BY else ''}"
            )
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise UserError(f"{where}: {_first_fault(error)}") from None

    def save(self, path: str | Path) -> Path:
        """Writes indented JSON under a temporary name, then renames it into place."""
        with replacing(Path(path)) as temporary:
            temporary.write_text(self.model_dump_json(indent=1) + "\n")
        return Path(path)

    def fingerprint(self) -> str:
        """First 16 hex digits of the SHA-256 of the canonical JSON."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def read_mapping(path: Path) -> dict[str, Any]:
    """Decodes a `.json` or `.toml` file into a dict, or raises `UserError` naming the fault."""
    most = MAX_TOML_BYTES if path.suffix == ".toml" else MAX_DOCUMENT_BYTES
    try:
        text = _bytes_of(path, most).decode("utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # among these a NUL in the path
        raise UserError(f"{path}: cannot be read as text ({error})") from None
    try:
        raw = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:  # both decoders' errors, and integers past Python's limit
        language = "TOML" if path.suffix == ".toml" else "JSON"
        raise UserError(f"{path}: not valid {language}: {error}") from None
    if not isinstance(raw, dict):
        raise UserError(f"{path}: a table of keys is needed, found {type(raw).__name__}")
    return raw


def _bytes_of(path: Path, most: int) -> bytes:
    """Of a plain file: devices and pipes have no end, or none in sight."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("not a file")
    with path.open("rb") as source:
        found = source.read(most + 1)
    if len(found) > most:
        raise OSError(f"more than {most:,} bytes, and no document is as long")
    return found


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`, renamed onto it on success and removed on failure."""
    check_writable(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:  # a full disk, for one
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Makes the folder of an output file; `UserError` where the file could not be written there.

    Verbs that work for minutes call it first.
    """
    try:
        if path.is_dir():
            raise UserError(f"{path}: is a folder; name a file to write")
        path.parent.mkdir(parents=True, exist_ok=True)
        fault = "" if os.access(path.parent, os.W_OK) else "no permission"
    except (OSError, ValueError) as error:  # a NUL in the path is no operating system's error
        fault = getattr(error, "strerror", None) or str(error)
    if fault:
        raise UserError(f"{path}: cannot be written ({fault})")


def _first_fault(error: ValidationError) -> str:
    faults = error.errors(include_url=False)
    first = faults[0]
    key = ".".join(str(part) for part in first["loc"]) or "document"
    shown = repr(first.get("input"))
    got = f" (got {shown})" if first["type"] not in ("missing",) and len(shown) <= 60 else ""
    more = f"; and {len(faults) - 1} more" if len(faults) > 1 else ""
    message = {"missing": "this key is missing", "extra_forbidden": "unknown key"}.get(first["type"], first["msg"])
    return f"{key}: {message}{got}{more}"


_AS_HTML: dict[type, Callable[[Any], str]] = {}


def show_as_html(kind: type[_Kind], shown: Callable[[_Kind], str]) -> None:
    """Contracts of a kind are shown so in notebooks; tables are made on a floor above this one."""
    _AS_HTML[kind] = shown
