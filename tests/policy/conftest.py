"""Fixtures of the policy layer: environments that a test makes up, and what AWS's schemas say."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cfnlint
import pytest

from dpd.facts import Facts
from dpd.rules import check
from dpd.selection import Selection
from dpd.spec.catalog import Catalog, load_catalog
from dpd.spec.deployment import build_deployment
from dpd.spec.environment import Environment
from dpd.spec.mirror import Mirror, MirroredChart, MirroredImage
from dpd.spec.mirror_file import mirror_path, write_mirror
from dpd.synth import synthesise

Template = dict[str, Any]
Built = dict[str, Template]
Changes = Mapping[str, object]

ROOT = Path(__file__).parents[2]
SITE = Path(__file__).parent / "site"
SCHEMAS = Path(cfnlint.__file__).parent / "data/schemas"
FULL = "full"
TOPIC = "arn:aws:sns:us-west-2:111122223333:alarms"
CERTIFICATE = "arn:aws:acm:us-west-2:111122223333:certificate/0123abcd-0000-0000-0000-000000000000"


@pytest.fixture(scope="session")
def full_app(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a synthesised App with the environment `full`: closed, with budget, schedule and certificate."""
    from dpd.nodejs import use_bundled_node

    use_bundled_node()
    from stacks.environment import build_environment, new_app

    dev, model = catalog.environments["dev"].value, catalog.models["llama-3.3-70b"].value
    assert dev is not None
    assert model is not None
    assert catalog.facts is not None
    data = dev.model_dump(mode="json", by_alias=True)
    data |= {
        "name": FULL,
        "network": {**data["network"], "closed": True, "placement_group": "create"},
        "budget": {"monthly_usd": 1000, "emails": ["ml@example.com"], "sns_topic_arn": TOPIC},
        "schedule": {"down": "cron(0 20 ? * MON-FRI *)", "up": "cron(0 7 ? * MON-FRI *)"},
        "endpoint": {
            "certificate_arn": CERTIFICATE,
            "domain_name": "llm.example.com",
            "hosted_zone_id": "Z0123456789ABC",
        },
    }
    full = Environment.model_validate(data)
    app = new_app(tmp_path_factory.mktemp("cdk.out"), builtin_cloud_formation_validation=False)
    build_environment(app, full, [build_deployment(full, model, catalog.facts)], catalog.facts)
    app.synth()
    return app


@pytest.fixture(scope="session")
def changed_environment(catalog: Catalog) -> Callable[..., Environment]:
    """Return ``changed_environment("dev", {"hyperpod.groups.decode.count": 3})``."""

    def change(name: str, changes: Changes) -> Environment:
        base = catalog.environments[name].value
        assert base is not None
        data: dict[str, Any] = copy.deepcopy(base.model_dump(mode="json", by_alias=True))
        for path, value in changes.items():
            *parents, last = path.split(".")
            at = data
            for part in parents:
                at = at.setdefault(part, {})
            at[last] = value
        return Environment.model_validate(data)

    return change


@pytest.fixture(scope="session")
def build(
    catalog: Catalog,
    facts: Facts,
    tmp_path_factory: pytest.TempPathFactory,
    changed_environment: Callable[..., Environment],
) -> Callable[..., Built]:
    """Return ``build("dev", {path: value}, models=[...])``: templates by the part of the stack's name.

    ``image`` is what every model is served with.
    """
    # CDK starts Node.js when it is imported, so the right one is chosen first.
    from dpd.nodejs import use_bundled_node

    use_bundled_node()
    from stacks.environment import build_environment, new_app

    def run(
        name: str,
        changes: Changes | None = None,
        models: Sequence[str] | None = None,
        image: str | None = None,
    ) -> Built:
        environment = changed_environment(name, changes or {})
        names = environment.models if models is None else models
        effective = [catalog.effective(name, model)[0].value for model in names]
        serving = [
            model.model_copy(update={"serving": model.serving.model_copy(update={"image": image})})
            if image
            else model
            for model in effective
            if model
        ]
        deployments = [build_deployment(environment, model, facts) for model in serving]
        app = new_app(tmp_path_factory.mktemp("cdk.out"), builtin_cloud_formation_validation=False)
        build_environment(app, environment, deployments, facts)
        prefix = f"dpd-{name}-"
        return {stack.stack_name.removeprefix(prefix): stack.template for stack in app.synth().stacks}

    return run


@pytest.fixture(scope="session")
def registry() -> Callable[[str], dict[str, Any] | None]:
    """Return a function that gives the CloudFormation registry's schema of a type; None for a custom one."""
    files: dict[str, str] = json.loads((SCHEMAS / "providers/us-west-2.json").read_text())
    read: dict[str, dict[str, Any]] = {}

    def schema(kind: str) -> dict[str, Any] | None:
        if kind not in files:
            return None
        if kind not in read:
            read[kind] = json.loads((SCHEMAS / f"resources/{files[kind]}.json").read_text())
        return read[kind]

    return schema


@dataclass(frozen=True)
class SiteBundles:
    """Hold the bundles of tests/policy/site, and the configuration that they came from."""

    folder: Path
    catalog: Catalog


@pytest.fixture(scope="session")
def site_bundles(facts: Facts, tmp_path_factory: pytest.TempPathFactory) -> SiteBundles:
    """Return `closed`, whose copies are recorded, and `brought`, which names everything by id."""
    folder = tmp_path_factory.mktemp("site")
    config = folder / "config"
    shutil.copytree(SITE, config / "environments")
    for part in ("models", "facts"):
        (config / part).symlink_to(ROOT / "config" / part)
    write_mirror(mirror_path(config, "closed"), _mirror(facts))
    catalog = load_catalog(config)
    assert [finding.text() for finding in check(catalog) if finding.severity != "info"] == []
    names, out = ("brought", "closed"), folder / "dist"
    written, findings = synthesise(catalog, facts, Selection(names, None), out, validate=False)
    assert ([path.name for path in written], findings) == (list(names), [])
    return SiteBundles(out, catalog)


def _mirror(facts: Facts) -> Mirror:
    sources = [row.reference for row in facts.chart_images.values()]
    sources.append(facts.images["hyperpod-dlc"].reference)
    registry, digest = "111122223333.dkr.ecr.us-west-2.amazonaws.com", f"sha256:{'ab' * 32}"
    images = {
        source: MirroredImage(target=f"{registry}/dpd/{source.partition('/')[2]}", digest=digest)
        for source in sources
    }
    commit = facts.charts["hyperpod-base"].commit
    uri = f"s3://dpd-closed-mirror/charts/{commit}.tar"
    return Mirror(images=images, chart=MirroredChart(commit=commit, uri=uri, sha256="cd" * 32))
