"""CFG: the files themselves. Reading them finds all but CFG007, which needs the catalogue of rules."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from dpd.finding import Severity
from dpd.rules.registry import Doc, Hit, loader_rule, rules
from dpd.spec.base_environment import BaseEnvironment

_DESIGN = "docs/configuration.md"

loader_rule(
    "CFG001",
    Severity.ERROR,
    Doc(
        title="Unknown key",
        symptom="A setting seems to have no effect: the engine or the cluster runs with the default.",
        cause="The schemas are closed, so a misspelt key would otherwise be dropped without a word.",
        fix="Use the name that the message proposes, or remove the key.",
        source=_DESIGN,
        bad="dpd: {routing: {treshold: 2048}}",
        good="dpd: {routing: {threshold_tokens: 2048}}",
    ),
)
loader_rule(
    "CFG002",
    Severity.ERROR,
    Doc(
        title="Missing key",
        symptom="Nothing can be planned or rendered.",
        cause="A value without a safe default is absent.",
        fix="Add the snippet that the message shows.",
        source=_DESIGN,
        bad="weights: {prefix: Llama-3.3-70B-Instruct/}",
        good="weights: {source: s3, prefix: Llama-3.3-70B-Instruct/}",
    ),
)
loader_rule(
    "CFG003",
    Severity.ERROR,
    Doc(
        title="Wrong type, unit or value",
        symptom="A size is read in another unit, or a number as text.",
        cause="The value does not have the type that the schema asks for; sizes need a binary unit.",
        fix="Write the value in the form that the message names.",
        source=_DESIGN,
        bad="dpd: {pd_buffer: 8}",
        good="dpd: {pd_buffer: 8GiB}",
    ),
)
loader_rule(
    "CFG004",
    Severity.ERROR,
    Doc(
        title="Names disagree",
        symptom="An environment deploys nothing, or an override changes nothing.",
        cause="A file name, `name`, the model list and `overrides` do not name the same thing.",
        fix="Make the names equal; the message lists those that are known.",
        source=_DESIGN,
        bad="models: [llama-70b]",
        good="models: [llama-3.3-70b]",
    ),
)
loader_rule(
    "CFG005",
    Severity.ERROR,
    Doc(
        title="File cannot be read",
        symptom="No command can start.",
        cause="The file is missing, empty, not UTF-8, or not valid YAML.",
        fix="Mend the file at the line that the message names.",
        source=_DESIGN,
        bad="models: [llama-3.3-70b",
        good="models: [llama-3.3-70b]",
    ),
)
loader_rule(
    "CFG006",
    Severity.ERROR,
    Doc(
        title="Key stands twice",
        symptom="An edit has no effect, because another line of the file sets the same key.",
        cause="YAML parsers keep the last of two equal keys without a word.",
        fix="Keep one of the two lines.",
        source=_DESIGN,
        bad="region: us-west-2\nregion: us-east-1",
        good="region: us-west-2",
    ),
)


loader_rule(
    "CFG007",
    Severity.ERROR,
    Doc(
        title="Accepted finding does not exist",
        symptom="A severity that somebody lowered comes back after a correction of the id.",
        cause="`accept` names an id that no rule has, or a CFG rule, whose findings leave nothing to accept.",
        fix="Use an id of `dpd rules` outside CFG.",
        source=_DESIGN,
        bad="accept: {IMG030: {severity: warning, reason: mirrored by our registry}}",
        good="accept: {IMG003: {severity: warning, reason: mirrored by our registry}}",
    ),
)
loader_rule(
    "CFG008",
    Severity.ERROR,
    Doc(
        title="Key of another back-end",
        symptom="A setting has no effect: this machine has no region, HyperPod no router port.",
        cause="The environment names a key that only the schema of the other back-end has.",
        fix="Remove the key, or set the back-end that has it.",
        source=_DESIGN,
        bad="backend: local\nregion: us-west-2",
        good="backend: local",
    ),
)


def accepted_ids(environment: BaseEnvironment) -> Iterable[Hit]:
    """Report ids under ``accept`` whose severity cannot be lowered."""
    known = [id for id in rules() if not id.startswith("CFG")]
    for id in environment.accept:
        if id not in known:
            near = difflib.get_close_matches(id, known, n=1)
            yield Hit(
                path=("accept", id),
                message=f"no finding `{id}` can be accepted",
                got=id,
                allowed=known,
                fix=f"did you mean {near[0]}?" if near else "see `dpd rules`",
                owner="environment",
            )
