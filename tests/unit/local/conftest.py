"""What the repository deploys to this machine."""

from __future__ import annotations

import pytest

from dpd.facts import Facts
from dpd.spec.catalog import Catalog
from dpd.spec.local import LocalEnvironment
from dpd.spec.local_deployment import LocalDeployment, build_local_deployment


@pytest.fixture
def deployment(catalog: Catalog, facts: Facts) -> LocalDeployment:
    """Return what the repository deploys to this machine."""
    environment = catalog.environments["local"].value
    model = catalog.models["tiny-llama"].value
    assert isinstance(environment, LocalEnvironment)
    assert model is not None
    return build_local_deployment(environment, model, facts)
