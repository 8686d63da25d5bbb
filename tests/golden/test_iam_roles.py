"""Every role that is not the business of CDK's own functions, whole: a reviewer reads each grant and change.

After an intended change write the files anew with `UPDATE_GOLDEN=1 pytest
tests/golden/test_iam_roles.py`, and read the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dpd.iam_reference import environment_roles
from dpd.iam_roles import Role

GOLDEN = Path(__file__).parent / "roles"


@pytest.fixture(scope="module")
def roles(environment_app: Any) -> dict[str, Role]:
    """Return the roles of dev by file name."""
    found = environment_roles(environment_app, "dev")
    return {file_name(role): role for role in found if "Provider/" not in role.path}


def file_name(role: Role) -> str:
    return role.path.removesuffix("/Resource").replace("/", ".") + ".json"


def test_each_role_is_as_reviewed(roles: dict[str, Role]) -> None:
    texts = {name: json.dumps(role.to_json(), indent=2) + "\n" for name, role in roles.items()}
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        for file in GOLDEN.glob("*.json"):
            file.unlink()
        for name, text in texts.items():
            (GOLDEN / name).write_text(text, encoding="utf-8")

    assert {file.name: file.read_text(encoding="utf-8") for file in GOLDEN.glob("*.json")} == texts


def test_the_roles_that_hold_the_most_are_among_them(roles: dict[str, Role]) -> None:
    assert {
        "hyperpod.ExecutionRole.Role.json",
        "operator.Operator.ExecutionRole.Role.json",
        "operator.Operator.AlbRole.Role.json",
    } <= set(roles)
