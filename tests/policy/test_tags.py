"""Cost allocation: everything that can carry a tag carries those of its environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Template = dict[str, Any]
Built = dict[str, Template]
Registry = Callable[[str], dict[str, Any] | None]

TAGS = {"hyperpod-dpd/environment": "dev", "team": "inference"}
EVERYTHING = {
    "hyperpod.groups.system.zone_id": "usw2-az2",
    "network.system_subnet_cidr": "10.2.0.0/20",
    "network.placement_group": "create",
    "budget": {"monthly_usd": 1000, "emails": ["ml@example.com"]},
    "schedule": {"down": "cron(0 20 ? * * *)", "up": "cron(0 7 ? * * *)"},
}


def tags_of(resource: Template, schema: dict[str, Any]) -> dict[str, str] | None:
    """Return the tags of a resource as a mapping; None where its type has none."""
    tagging = schema.get("tagging", {})
    if not tagging.get("taggable", False):
        return None
    name = tagging.get("tagProperty", "/properties/Tags").rpartition("/")[2]
    tags = resource["Properties"].get(name, {})
    return tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}


@pytest.mark.parametrize(
    "changes", [{}, EVERYTHING, {"network.closed": True}], ids=["dev", "options", "closed"]
)
def test_everything_that_can_carry_tags_carries_them(
    build: Callable[..., Built], registry: Registry, changes: dict[str, object]
) -> None:
    untagged: list[str] = []
    tagged = 0
    for stack, template in build("dev", changes, models=[]).items():
        for name, resource in template["Resources"].items():
            schema = registry(resource["Type"])
            tags = tags_of(resource, schema) if schema else None
            if tags is not None:
                tagged += 1
                if not TAGS.items() <= tags.items():
                    untagged.append(f"{stack}/{name} ({resource['Type']})")

    assert untagged == []
    assert tagged > 50
