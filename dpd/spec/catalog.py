"""Load every file of a configuration folder, and merge what belongs together.

Precedence, lowest first: schema defaults, model file, the environment's ``overrides``, ``--set``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar, cast

import yaml

from dpd.closed_model import ClosedModel, Locate, validate
from dpd.facts import Facts, load_facts
from dpd.finding import Finding, Severity
from dpd.spec.backend import AnyEnvironment, environment_schema, foreign_keys
from dpd.spec.config_json import fill_architecture
from dpd.spec.environment import Environment
from dpd.spec.merge import Merged, Origin, merge
from dpd.spec.mirror_file import lay_mirror, mirror_path
from dpd.spec.model import Model, kubernetes_name
from dpd.spec.weights_path import anchor_weights
from dpd.yaml_file import Path_, YamlFile, dotted, read_yaml

COMMAND_LINE = "command line"

Kind = TypeVar("Kind", bound=ClosedModel)


@dataclass(frozen=True)
class Loaded(Generic[Kind]):
    """Pair a validated object with the places its values came from; ``value`` is None if invalid."""

    name: str
    value: Kind | None
    merged: Merged
    written: Merged = field(default_factory=Merged)
    """What the YAML files say alone; ``merged`` holds what a config.json adds to it."""


@dataclass(frozen=True)
class Catalog:
    """Hold all configuration of one folder, with everything that is wrong in it."""

    config_dir: Path
    facts: Facts | None
    environments: Mapping[str, Loaded[AnyEnvironment]]
    models: Mapping[str, Loaded[Model]]
    findings: tuple[Finding, ...] = ()
    sets: Merged = field(default_factory=Merged)

    def effective(self, environment: str, model: str) -> tuple[Loaded[Model], list[Finding]]:
        """Return ``model`` as ``environment`` sees it, with findings for wrong overrides.

        A model whose own file is wrong comes back without a value and without new findings.
        """
        loaded, base = self.environments[environment], self.models[model]
        if base.value is None:
            return base, []
        merged = base.written
        if loaded.value is not None and model in loaded.value.overrides:
            prefix: Path_ = ("overrides", model)
            origins = {
                path[2:]: origin for path, origin in loaded.merged.origins.items() if path[:2] == prefix
            }
            merged = merge(merged, loaded.value.overrides[model], origins)
        if self.sets.data:
            merged = merge(merged, self.sets.data, self.sets.origins)
        if merged is base.written:
            return base, []
        result, findings = _validated(Model, model, merged)
        return result, findings + _same_name(model, merged)


def load_catalog(config_dir: Path, sets: Sequence[str] = ()) -> Catalog:
    """Read environments, models and facts below ``config_dir``; never raises on a user's mistake."""
    facts, findings = load_facts(config_dir / "facts")
    environments, found = _load_folder(config_dir / "environments", environment_schema)
    findings += found
    models, found = _load_folder(config_dir / "models", lambda _: Model)
    findings += found
    known = frozenset(models)
    for loaded in environments.values():
        if loaded.value is not None:
            findings += _names(loaded, loaded.value, known)
    merged, found = _parse_sets(sets)
    findings += found
    return Catalog(config_dir, facts, environments, models, tuple(findings), merged)


def _validated(kind: type[Kind], name: str, written: Merged) -> tuple[Loaded[Kind], list[Finding]]:
    merged, findings = fill_architecture(anchor_weights(written))
    if findings:
        return Loaded(name, None, merged, written), findings
    value, findings = validate(kind, merged.data, _locator(merged))
    return Loaded(name, value, merged, written), findings


def _locator(merged: Merged) -> Locate:
    def locate(path: Path_) -> tuple[str, int | None, str]:
        origin = merged.origin(path)
        return origin.file, origin.line, origin.path

    return locate


def _load_folder(
    folder: Path, schema_of: Callable[[Mapping[str, object]], type[Kind]]
) -> tuple[dict[str, Loaded[Kind]], list[Finding]]:
    files = sorted(path for path in folder.glob("*.y*ml") if path.suffix in {".yaml", ".yml"})
    if not files:
        message = "has no YAML file" if folder.is_dir() else "is not there"
        finding = Finding(
            "CFG005",
            Severity.ERROR,
            "",
            message,
            fix="point --config-dir at a folder with environments/, models/ and facts/",
            file=str(folder),
        )
        return {}, [finding]
    loaded: dict[str, Loaded[Kind]] = {}
    findings: list[Finding] = []
    for path in files:
        file = read_yaml(path)
        found_here, found = _load_file(file, schema_of(file.data))
        findings += found
        if path.stem in loaded:
            findings.append(_second_file(path, loaded[path.stem].merged.fallback.file))
        loaded[path.stem] = found_here
    return loaded, findings


def _load_file(file: YamlFile, schema: type[Kind]) -> tuple[Loaded[Kind], list[Finding]]:
    name = file.path.stem
    written, broken = _as_merged(file), list(file.findings)
    if schema is Environment:
        written, found = lay_mirror(written, mirror_path(file.path.parent.parent, name))
        broken += found
    if broken:
        return Loaded(name, None, written, written), broken
    written, foreign = foreign_keys(schema, written)
    loaded, found = _validated(schema, name, written)
    findings = [*foreign, *found, *_file_name(file.path, file)]
    return (replace(loaded, value=None) if foreign else loaded), findings


def _as_merged(file: YamlFile) -> Merged:
    name = str(file.path)
    origins = {path: Origin(name, line, dotted(path)) for path, line in file.lines.items() if path}
    return Merged(file.data, origins, Origin(name, None, ""))


def _second_file(path: Path, first: str) -> Finding:
    return Finding(
        id="CFG004",
        severity=Severity.ERROR,
        path="",
        message=f"has the same name as {first}",
        fix="remove one of the two",
        file=str(path),
    )


def _file_name(path: Path, file: YamlFile) -> list[Finding]:
    name = file.data.get("name")
    if not isinstance(name, str) or name == path.stem:
        return []
    return [
        Finding(
            id="CFG004",
            severity=Severity.ERROR,
            path="name",
            message=f"name `{name}` differs from the file's name `{path.stem}`",
            got=name,
            allowed=path.stem,
            fix=f"write `name: {path.stem}` or rename the file to {name}{path.suffix}",
            file=str(path),
            line=file.line(("name",)),
        )
    ]


def _same_name(name: str, merged: Merged) -> list[Finding]:
    """Report a layer that renames the model: files, overrides and stacks would disagree."""
    got = merged.data.get("name")
    if got == name or not isinstance(got, str):
        return []
    origin = merged.origin(("name",))
    return [
        Finding(
            id="CFG004",
            severity=Severity.ERROR,
            path=origin.path,
            message=f"name `{got}` differs from the model's name `{name}`",
            got=got,
            allowed=name,
            fix="remove it",
            file=origin.file,
            line=origin.line,
        )
    ]


def _names(
    loaded: Loaded[AnyEnvironment], environment: AnyEnvironment, known: frozenset[str]
) -> list[Finding]:
    """Report models that no file describes, models listed twice, and overrides of absent models."""
    findings: list[Finding] = []

    def report(path: Path_, message: str, got: str, allowed: list[str], fix: str = "") -> None:
        near = difflib.get_close_matches(got, allowed, n=1)
        fix = fix or (f"did you mean `{near[0]}`?" if near else f"known: {', '.join(allowed) or 'none'}")
        origin = loaded.merged.origin(path)
        findings.append(
            Finding(
                "CFG004",
                Severity.ERROR,
                origin.path,
                message,
                got,
                allowed,
                fix,
                "",
                origin.file,
                origin.line,
            )
        )

    rendered: dict[str, str] = {}
    for index, name in enumerate(environment.models):
        other = rendered.setdefault(kubernetes_name(name), name)
        if other != name:
            message = f"`{name}` and `{other}` would both be `{kubernetes_name(name)}` in the cluster"
            report(("models", index), message, name, sorted(known), "rename one of them")
        elif name not in known:
            report(("models", index), f"no file in models/ describes `{name}`", name, sorted(known))
        elif name in environment.models[:index]:
            message = f"model `{name}` is listed twice"
            report(("models", index), message, name, sorted(known), "list it once")
    for name in environment.overrides:
        if name not in environment.models:
            message = f"overrides name `{name}`, which this environment does not serve"
            report(("overrides", name), message, name, list(environment.models))
    return findings


def _parse_sets(sets: Sequence[str]) -> tuple[Merged, list[Finding]]:
    """Turn ``dpd.pd_buffer=16GiB`` into a layer; a malformed one gives CFG003."""
    merged = Merged()
    findings: list[Finding] = []
    for item in sets:
        key, equals, text = item.partition("=")
        try:
            value: object = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError):
            equals = ""
            value = None
        if not equals or not all(key.split(".")):
            message = "--set wants KEY=VALUE, such as dpd.pd_buffer=16GiB"
            findings.append(Finding("CFG003", Severity.ERROR, item, message, item, file=COMMAND_LINE))
            continue
        layer: dict[str, object] = {}
        at = layer
        parts = key.split(".")
        for part in parts[:-1]:
            at = cast("dict[str, object]", at.setdefault(part, {}))
        at[parts[-1]] = value
        # Parents too: one that the files do not have came from here, and so did what is wrong with it.
        origins = {
            tuple(parts[:end]): Origin(COMMAND_LINE, None, ".".join(parts[:end]))
            for end in range(1, len(parts))
        }
        merged = merge(merged, layer, {**origins, **dict(_origins_below(tuple(parts), value))})
    return merged, findings


def _origins_below(path: Path_, value: object) -> Iterator[tuple[Path_, Origin]]:
    """Yield ``path`` and every path below it as set on the command line."""
    yield path, Origin(COMMAND_LINE, None, dotted(path))
    if isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from _origins_below((*path, key), item)
