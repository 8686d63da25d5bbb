"""IMG: worker images, and whether what they hold can move KV cache."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, Hit, ModelContext, accept_hint, model_rule

_PATH = ("serving", "image")
_FLOATING = {"latest", "nightly", "main", "master", "dev", "edge", "stable"}


@model_rule(
    "IMG001",
    Severity.ERROR,
    Doc(
        title="Floating image tag",
        symptom="A pod that restarts at night comes back with another engine (P-60, P-62).",
        cause="Tags such as latest move; prefill and decode can even pull different images.",
        fix="Use a release tag, better a digest.",
        source="llm-d/llm-d#661",
        bad="serving: {image: lmcache/vllm-openai:latest}",
        good="serving: {image: hyperpod-dlc}",
    ),
)
def floating_tag(context: ModelContext) -> Iterable[Hit]:
    """Report an image with neither digest nor a tag that stays."""
    image = context.deployment.image
    if image.digest is None and (image.tag is None or _moves(image.tag)):
        yield Hit(
            path=_PATH,
            message=f"image {image.reference} has no tag that stays",
            got=context.deployment.model.serving.image,
            allowed=list(context.facts.images),
            fix=f"use a key of the image facts ({', '.join(context.facts.images)}) or a release tag",
        )


def _moves(tag: str) -> bool:
    return bool(_FLOATING & set(re.split(r"[-_.]", tag.lower())))


@model_rule(
    "IMG002",
    Severity.WARNING,
    Doc(
        title="Image not in the compatibility facts",
        symptom="Flags and LMCache behaviour of the engine are not checked.",
        cause="The package does not know which vLLM, LMCache and NIXL the image holds.",
        fix="Add a row with its source to config/facts/images.yaml, or accept the finding with a reason.",
        source="docs/configuration.md",
        bad="serving: {image: registry.example.com/vllm:1.0}",
        good="serving: {image: hyperpod-dlc}",
    ),
)
def unknown_image(context: ModelContext) -> Iterable[Hit]:
    """Report an image without a row, unless its tag already is the problem."""
    image = context.deployment.image
    floating = image.digest is None and (image.tag is None or _moves(image.tag))
    if image.fact is None and not floating:
        yield Hit(
            path=_PATH,
            message=f"image {image.reference} is not in the compatibility facts; its flags are not checked",
            got=context.deployment.model.serving.image,
            allowed=list(context.facts.images),
            fix=f"add a row with its source to config/facts/images.yaml, {accept_hint('IMG002')}",
        )


@model_rule(
    "IMG003",
    Severity.ERROR,
    Doc(
        title="No digest in a protected environment",
        symptom="Production runs other bytes than those that were tested.",
        cause="A tag can be pushed again; only a digest names bytes.",
        fix="Write the reference with @sha256:..., as your registry reports it.",
        source="docs.aws.amazon.com: AmazonECR image-tag-mutability",
        bad="protected: true  # and serving.image without a digest",
        good="serving: {image: 111122223333.dkr.ecr.us-west-2.amazonaws.com/vllm@sha256:<digest>}",
    ),
)
def digest_in_protected(context: ModelContext) -> Iterable[Hit]:
    """Report a protected environment whose image is named by tag."""
    deployment = context.deployment
    image = deployment.image
    floating = image.tag is None or _moves(image.tag)
    if deployment.environment.protected and image.digest is None and not floating:
        yield Hit(
            path=_PATH,
            message=f"image {image.reference} has no digest, and this environment is protected",
            got=deployment.model.serving.image,
            allowed="<reference>@sha256:<64 hexadecimal digits>",
            fix="name the image by digest",
        )


@model_rule(
    "IMG004",
    Severity.WARNING,
    Doc(
        title="Image not known to hold EFA's libfabric",
        symptom="KV cache moves at TCP speed, some 600 times slower, without an error (P-15, P-35).",
        cause="NIXL's LIBFABRIC plugin needs the libfabric of the EFA installer, which the image may lack.",
        fix="Use the HyperPod image, or prove it: the log line `Backend LIBFABRIC was instantiated`.",
        source="ray-project/ray#62339",
        bad="serving: {image: lmcache-v0.4.3}",
        good="serving: {image: hyperpod-dlc}",
    ),
)
def efa_libraries(context: ModelContext) -> Iterable[Hit]:
    """Report a disaggregated model whose image is not known to drive EFA."""
    fact = context.deployment.image.fact
    if context.deployment.disaggregated and fact is not None and not fact.efa:
        yield Hit(
            path=_PATH,
            message=f"{fact.reference} is not known to hold EFA's libfabric",
            got=context.deployment.model.serving.image,
            allowed=[name for name, row in context.facts.images.items() if row.efa],
            fix="use the HyperPod image, or prove the transfer rate before relying on it",
        )


@model_rule(
    "IMG005",
    Severity.WARNING,
    Doc(
        title="Image not known to hold LMCache",
        symptom="The engine starts in `degraded mode (recompute)`, and /health still answers 200.",
        cause="The lmcache transport needs LMCache in the image; the facts know of none.",
        fix="Use an image with a known LMCache release.",
        source="lmcache 0.4.3 v1/manager.py",
        bad="serving: {image: dlc-vllm-v2.3}  # transport lmcache",
        good="serving: {image: hyperpod-dlc}",
    ),
)
def lmcache_present(context: ModelContext) -> Iterable[Hit]:
    """Report the lmcache transport on an image whose LMCache release is not known."""
    deployment = context.deployment
    fact = deployment.image.fact
    needed = deployment.disaggregated and deployment.model.dpd.transport == "lmcache"
    if needed and fact is not None and fact.lmcache_version is None:
        yield Hit(
            path=_PATH,
            message=f"{fact.reference} is not known to hold LMCache, which moves the KV cache",
            got=deployment.model.serving.image,
            allowed=[name for name, row in context.facts.images.items() if row.lmcache_version],
            fix="use an image whose LMCache release is known",
        )
