"""The Lambda layer with kubectl and helm that belongs to one Kubernetes version."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import cast

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from dpd.facts import Facts


def kubectl_layer(
    scope: Construct, construct_id: str, *, kubernetes_version: str, facts: Facts
) -> lambda_.LayerVersion:
    """Make the layer of ``kubernetes_version``: kubectl may differ from the server by one minor version.

    Raises ValueError where the facts name no layer, and ModuleNotFoundError with the package to
    install where it is missing (reports P-77 and P-78).
    """
    fact = facts.kubernetes.get(kubernetes_version)
    if fact is None or fact.kubectl_layer_module is None:
        known = ", ".join(name for name, row in facts.kubernetes.items() if row.kubectl_layer_module)
        raise ValueError(f"no kubectl layer is known for Kubernetes {kubernetes_version!r}; known: {known}")
    try:
        module = importlib.import_module(fact.kubectl_layer_module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"Kubernetes {kubernetes_version} needs the kubectl layer {fact.kubectl_layer_module}: "
            f"pip install '{fact.kubectl_layer_package}'"
        ) from error
    layers = [
        item
        for _, item in inspect.getmembers(module, inspect.isclass)
        if issubclass(item, lambda_.LayerVersion)
    ]
    # The subclass of each version fixes the layer's code, which its base class asks for.
    make = cast("Callable[[Construct, str], lambda_.LayerVersion]", layers[0])
    return make(scope, construct_id)
