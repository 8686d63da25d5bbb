"""Facts about regions, Kubernetes, the operator, add-ons and charts."""

from __future__ import annotations

from datetime import date

from dpd.fact import Fact


class RegionFact(Fact):
    """Describe what one region offers."""

    zone_ids: tuple[str, ...]
    control_plane_zone_ids: tuple[str, ...]
    """Zones in which EKS places a control plane."""
    hyperpod: bool
    operator_image_account: str | None = None
    """Account that serves the operator's images there; none means the operator does not run."""
    instance_types: tuple[str, ...] = ()
    """GPU types in the region's `AWS::SageMaker::Cluster` enumeration."""


class VpcRangeFact(Fact):
    """Say which ranges AWS refuses to add to a VPC that has one of this range."""

    refuses: tuple[str, ...]


class KubernetesFact(Fact):
    """Say which parts of the stack support one Kubernetes version."""

    hyperpod: bool
    operator: bool
    standard_support_until: date | None = None
    """Last day of EKS standard support; afterwards the control plane costs several times as much."""
    kubectl_layer_module: str | None = None
    """Python module with the kubectl layer of this version."""
    kubectl_layer_package: str | None = None
    helm_version: str | None = None


class OperatorFact(Fact):
    """Describe one version of the add-on amazon-sagemaker-hyperpod-inference."""

    operator_version: str
    supports_dpd: bool
    chart_version: str | None = None
    kubernetes_versions: tuple[str, ...] = ()
    """Kubernetes versions for which EKS was seen to offer it; empty: nobody has published them."""
    known_defects: tuple[str, ...] = ()


class AddonFact(Fact):
    """Describe an EKS add-on that the stacks install."""

    minimum_version: str
    default_version: str
    default_for_kubernetes: str | None = None
    """The one Kubernetes version that the default fits; none: any."""
    namespace: str
    service_account: str | None = None
    """Service account that assumes the add-on's role, where it has one."""


class AddonConfigurationFact(Fact):
    """List the configuration keys that an add-on accepts, in dotted form; `x.*` allows a subtree."""

    keys: tuple[str, ...]
    required: tuple[str, ...] = ()


class ChartFact(Fact):
    """Pin a Helm chart that exists only as a folder of a Git repository."""

    repository: str
    commit: str
    folder: str
    release: str
    namespace: str
    efa_plugin_version: str
    """Release of aws-efa-k8s-device-plugin among its dependencies."""
    nvidia_plugin_version: str
    parts: tuple[str, ...]
    """Conditions and names of its dependencies: the keys of its values that Helm hands on."""
    inference_operator_version: str
    """Release of the operator's own chart at this commit, which the add-on replaces."""
    archive_sha256: str | None = None
    """SHA-256 of `git archive` of the folder, where somebody has measured it."""
