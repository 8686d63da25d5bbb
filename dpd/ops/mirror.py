"""Copy everything that a closed network needs, and record it in config/mirror/<environment>.yaml."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpd.facts import Facts
from dpd.ops.mirror_chart import build_archive, is_there, upload_chart
from dpd.ops.mirror_images import mirror_images
from dpd.ops.mirror_plan import Copy
from dpd.ops.registry_copy import MirrorFailed
from dpd.spec.base_chart import chart_pin
from dpd.spec.environment import Environment
from dpd.spec.mirror import Mirror, MirroredChart
from dpd.spec.mirror_file import write_mirror
from dpd.spec.names import mirror_bucket_name


@dataclass(frozen=True, slots=True)
class Clients:
    """Hold the boto3 clients of one region."""

    sts: Any
    ecr: Any
    s3: Any


def apply_mirror(
    environment: Environment,
    items: Sequence[Copy],
    facts: Facts,
    clients: Clients,
    *,
    file: Path,
    fetch_script: Path,
    say: Callable[[str], None],
) -> Mirror:
    """Copy, then write ``file``; raises MirrorFailed, and then the file is as it was.

    The file names only what the environment needs now; older copies stay in the registry.
    """
    account = str(clients.sts.get_caller_identity()["Account"])
    if environment.account not in {None, account}:
        raise MirrorFailed(
            f"the credentials are of account {account}, and {environment.name} names {environment.account}"
        )
    region = environment.region
    images = mirror_images(items, clients.ecr, account=account, region=region, say=say)
    chart = _chart(environment, facts, clients, account, fetch_script, say)
    mirror = Mirror(images=images, chart=chart)
    write_mirror(file, mirror)
    return mirror


def _chart(
    environment: Environment,
    facts: Facts,
    clients: Clients,
    account: str,
    fetch_script: Path,
    say: Callable[[str], None],
) -> MirroredChart:
    pin, recorded = chart_pin(environment, facts), environment.mirror.chart
    if recorded is not None and recorded.commit == pin.commit and is_there(clients.s3, recorded):
        say(f"have  {recorded.uri}")
        return recorded
    say(f"copy  {pin.repository} at {pin.commit}")
    bucket = mirror_bucket_name(environment.name, account, environment.region)
    return upload_chart(clients.s3, bucket, environment.region, pin, build_archive(pin, fetch_script))
