"""The directive `contract`: a file's keys as tables, from the pydantic model that reads it.

```{contract} gnnplan.planner.job.Job
:elsewhere: gnnplan.planner.cluster.Cluster
```

Args of a class's docstring describe its keys. Models that those of `elsewhere` are made of are left out.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

_ARGUMENT = re.compile(r"^    ([\w, ]+): (.*)$")
_INTERNAL = {"kind"}


class ContractDirective(SphinxDirective):
    """Sections with a table of keys: of the model, and of those that it is made of."""

    required_arguments = 1
    option_spec: ClassVar = {"elsewhere": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """The tables, as nodes."""
        elsewhere = {name for path in self.options.get("elsewhere", "").split() for name in _schemas(path)}
        schemas = {name: schema for name, schema in _schemas(self.arguments[0]).items() if name not in elsewhere}
        text = "\n".join(line for name, schema in schemas.items() for line in _section(name, schema, schemas))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def _schemas(path: str) -> dict[str, Any]:
    """JSON schemas by name: the model's own first, then those of what it is made of."""
    module, _, name = path.rpartition(".")
    model = getattr(importlib.import_module(module), name)
    schema = model.model_json_schema()
    own = {key: value for key, value in schema.items() if key != "$defs"}
    _say_version(own, getattr(model, "VERSION", None))
    return {name: own, **{each: found for each, found in schema.get("$defs", {}).items() if "properties" in found}}


def _say_version(schema: dict[str, Any], version: int | None) -> None:
    """A file has to say its version, and there is one that is read."""
    if version is not None:
        schema["properties"] = {**schema["properties"], "schema_version": {"const": version}}
        schema["required"] = ["schema_version", *schema.get("required", ())]


def _section(name: str, schema: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    about, keys = _described(schema.get("description", ""))
    yield from (f"## {name}", "", about, "", "| key | value | default | meaning |", "| --- | --- | --- | --- |")
    required = schema.get("required", ())
    for key, value in schema["properties"].items():
        if key in _INTERNAL:
            continue
        default = "needed" if key in required else _default(value)
        meaning = keys.get(key) or _of_reference(value, known)
        yield f"| `{key}` | {_words(value, known)} | {default} | {meaning} |"
    yield ""


def _described(docstring: str) -> tuple[str, dict[str, str]]:
    """What a docstring says of the class, and of each of its keys."""
    about, _, rest = docstring.partition("Args:\n")
    keys: dict[str, str] = {}
    names: list[str] = []
    for line in rest.splitlines():
        if found := _ARGUMENT.match(line):
            names = [name.strip() for name in found[1].split(",")]
            keys.update(dict.fromkeys(names, found[2]))
        elif line.strip() and names:
            keys.update({name: f"{keys[name]} {line.strip()}" for name in names})
    return " ".join(about.split()), {name: text.replace("|", "\\|") for name, text in keys.items()}


def _of_reference(value: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """What a model says of itself, where the key has nothing but that model."""
    found = [each["$ref"].rsplit("/", 1)[-1] for each in (value, *value.get("anyOf", ())) if "$ref" in each]
    about = _described(known[found[0]].get("description", ""))[0] if found and found[0] in known else ""
    return about.split(". ")[0]


def _default(value: Mapping[str, Any]) -> str:
    default = value.get("default")
    if isinstance(default, dict):
        return "its defaults"
    return "" if default in (None, "", [], ()) else f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _words(value: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """What a value may be, in words."""
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})" if name in known else name
    for several in ("anyOf", "oneOf"):
        if several in value:
            return " or ".join(_words(each, known) for each in value[several] if each.get("type") != "null")
    if "const" in value or "enum" in value:
        return ", ".join(f"`{each}`" for each in value.get("enum", [value.get("const")]))
    kind = value.get("type")
    if kind == "array":
        return _list(value, known)
    if kind == "object":
        of = value.get("additionalProperties")
        return f"table of {_words(of, known)}" if isinstance(of, dict) and of else "table"
    names = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true` or `false`"}
    word = "path" if value.get("format") == "path" else names.get(str(kind), "any value")
    return f"{word}{_limits(value)}"


def _list(value: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    if "prefixItems" in value:
        return ", ".join(_words(each, known) for each in value["prefixItems"])
    return f"list of {_words(value.get('items', {}), known)}"


def _limits(value: Mapping[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    found = [f"{sign} {value[key]:g}" for key, sign in signs.items() if key in value]
    return f" {', '.join(found)}" if found else ""


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the directive."""
    app.add_directive("contract", ContractDirective)
    return {"parallel_read_safe": True}
