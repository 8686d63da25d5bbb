"""The cdk8s chart writes the same objects as the plain manifests."""

from __future__ import annotations

import yaml

from dpd.nodejs import use_bundled_node
from dpd.spec.catalog import Catalog
from dpd.spec.deployment import build_deployment
from k8s.render import Bindings, manifests


def test_chart_and_plain_manifests_are_equal_in_meaning(catalog: Catalog) -> None:
    use_bundled_node()
    # Here, because the import starts Node.js.
    from cdk8s import App

    from k8s.chart import chart

    environment, facts = catalog.environments["prod"].value, catalog.facts
    model = catalog.effective("prod", "llama-3.3-70b")[0].value
    assert environment is not None
    assert model is not None
    assert facts is not None
    deployment, bindings = build_deployment(environment, model, facts), Bindings("weights", "hyperpod-tls-x")
    app = App()
    chart(app, "llama", deployment, bindings)
    assert list(yaml.safe_load_all(app.synth_yaml())) == manifests(deployment, bindings)
