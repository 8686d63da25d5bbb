"""What a closed network needs copies of; pure, so that the plan asks nobody."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dpd.facts import Facts
from dpd.spec.base_chart import chart_pin
from dpd.spec.environment import Environment
from dpd.spec.image import resolve_image
from dpd.spec.mirror import MirroredImage
from dpd.spec.model import Model
from dpd.spec.names import mirror_bucket_name, mirror_repository

ANY_ACCOUNT = "<account>"
_DIGEST_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class Copy:
    """Say where one image comes from and which repository and tag its copy gets.

    ``done`` is what an earlier run recorded, None where there is no copy.
    """

    source: str
    repository: str
    tag: str
    done: MirroredImage | None

    def target(self, account: str, region: str) -> str:
        """Return repository and tag in the private registry of one account and region."""
        return f"{registry(account, region)}/{self.repository}:{self.tag}"


def registry(account: str, region: str) -> str:
    """Return the host of the private registry."""
    suffix = ".cn" if region.startswith("cn-") else ""
    return f"{account}.dkr.ecr.{region}.amazonaws.com{suffix}"


def copies(environment: Environment, models: Sequence[Model], facts: Facts) -> list[Copy]:
    """Return a copy for each image of the base chart and of the models, each image once.

    Images that lie in a private registry of the region already need none.
    """
    wanted = [row.reference for row in facts.chart_images.values()]
    wanted += [resolve_image(model.serving.image, facts).reference for model in models]
    private = re.compile(rf"[0-9]{{12}}\.dkr\.ecr\.{re.escape(environment.region)}\.amazonaws\.com")
    return [
        Copy(source, mirror_repository(_path(source)), _tag(source), environment.mirror.images.get(source))
        for source in dict.fromkeys(wanted)
        if not private.match(source)
    ]


def _path(reference: str) -> str:
    """Return the path of a reference, without the registry's host: docker.io/a/b:1 gives a/b."""
    name = reference.partition("@")[0]
    host, slash, rest = name.partition("/")
    path = rest if slash and re.search(r"[.:]|^localhost$", host) else name
    return path.partition(":")[0]


def _tag(reference: str) -> str:
    name, _, digest = reference.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag or f"sha256-{digest.removeprefix('sha256:')[:_DIGEST_CHARACTERS]}"


@dataclass(frozen=True, slots=True)
class PlannedCopy:
    """State one copy for people and programs; ``digest`` is None where it is still to be made."""

    source: str
    target: str
    digest: str | None


def planned(environment: Environment, items: Sequence[Copy], facts: Facts) -> list[PlannedCopy]:
    """Return every copy of an environment, that of the base chart last."""
    account, region = environment.account or ANY_ACCOUNT, environment.region
    rows = [
        PlannedCopy(item.source, item.target(account, region), item.done.digest if item.done else None)
        for item in items
    ]
    pin, chart = chart_pin(environment, facts), environment.mirror.chart
    source = f"{pin.repository}@{pin.commit}"
    if chart is not None and chart.commit == pin.commit:
        rows.append(PlannedCopy(source, chart.uri, f"sha256:{chart.sha256}"))
    else:
        bucket = mirror_bucket_name(environment.name, account, region)
        rows.append(PlannedCopy(source, f"s3://{bucket}/charts/", None))
    return rows
