"""Worker images: a key of the facts, or a full reference, and what is known to be inside."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpd.facts import Facts, ImageFact, VllmFact
from dpd.spec.environment import Environment


@dataclass(frozen=True, slots=True)
class Image:
    """Hold a full image reference and, where the facts know it, what it contains."""

    reference: str
    fact: ImageFact | None

    @property
    def digest(self) -> str | None:
        """Return the pinned digest, None where only a tag is given or the digest is none."""
        digest = self.reference.partition("@")[2]
        return digest if re.fullmatch(r"sha256:[0-9a-f]{64}", digest) else None

    @property
    def tag(self) -> str | None:
        """Return the tag, None where there is none."""
        name = self.reference.partition("@")[0].rpartition("/")[2]
        return name.partition(":")[2] or None


def resolve_image(name: str, facts: Facts) -> Image:
    """Turn a key of the image facts, or a full reference, into a reference with its facts."""
    fact = facts.images.get(name)
    if fact is not None:
        return Image(f"{fact.reference}@{fact.digest}" if fact.digest else fact.reference, fact)
    bare = name.partition("@")[0]
    return Image(name, next((row for row in facts.images.values() if row.reference == bare), None))


def pulled_image(image: Image, environment: Environment) -> Image:
    """Return the image as nodes pull it: in a closed network its copy, which holds the same."""
    copy = environment.mirrored_image(image.reference)
    return Image(copy.reference, image.fact) if copy else image


def vllm_of(image: Image, facts: Facts) -> VllmFact | None:
    """Return the flag table of the image's vLLM release, None where the release is not known."""
    version = image.fact.vllm_version if image.fact else ""
    release = ".".join(version.split(".")[:3])
    return facts.vllm.get(version) or facts.vllm.get(release)
