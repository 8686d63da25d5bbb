"""VAL: what the offline validators of `dpd synth --validate` find in written templates and manifests."""

from __future__ import annotations

from dpd.finding import Severity
from dpd.rules.registry import Doc, loader_rule

loader_rule(
    "VAL001",
    Severity.ERROR,
    Doc(
        title="Template against CloudFormation's schemas",
        symptom="CloudFormation refuses the change set, or fails on one resource after others exist.",
        cause="A property, value or reference is not what the resource's registry schema allows.",
        fix="Mend the construct that wrote the resource; the finding names its logical id.",
        source="PyPI cloudformation-validate",
        bad="NodeProvisioningMode: Continous",
        good="NodeProvisioningMode: Continuous",
    ),
)
loader_rule(
    "VAL002",
    Severity.ERROR,
    Doc(
        title="Template against our Guard rules",
        symptom="EFA health checks fail, nodes miss their script, or an add-on moves by itself.",
        cause="Something that the services demand and no schema states; the rules are in policy/*.guard.",
        fix="Mend the construct that wrote the resource.",
        source="policy/*.guard",
        bad="SecurityGroupEgress: [{CidrIp: 0.0.0.0/0, IpProtocol: '-1'}]  # and no egress to itself",
        good="SecurityGroupEgress with DestinationSecurityGroupId equal to GroupId",
    ),
)
loader_rule(
    "VAL003",
    Severity.ERROR,
    Doc(
        title="Template against cfn-lint",
        symptom="CloudFormation refuses the template, or a value is wrong for the region.",
        cause="A second, independent reading of the same template found an error.",
        fix="Mend the construct; explain a warning that stands in policy/ignored.yaml.",
        source="PyPI cfn-lint",
        bad="InstanceType: ml.p5.49xlarge",
        good="InstanceType: ml.p5.48xlarge",
    ),
)
loader_rule(
    "VAL004",
    Severity.ERROR,
    Doc(
        title="Manifest against the operator's definition",
        symptom="The API server drops an unknown field without a word, or refuses the resource.",
        cause="The InferenceEndpointConfig differs from the CustomResourceDefinition in DPD_CRD.",
        fix="Mend the renderer, or point DPD_CRD at the definition of your operator's version.",
        source="kubectl get crd inferenceendpointconfigs.inference.sagemaker.aws.amazon.com",
        bad="pdSpec: {decodeSpec: {replicas: 1}}",
        good="pdSpec: {decodingSpec: {replicas: 1}}",
    ),
)
loader_rule(
    "VAL005",
    Severity.ERROR,
    Doc(
        title="Manifest against Kubernetes' schemas",
        symptom="`kubectl apply` refuses the object, or drops a field.",
        cause="An object of a built-in kind does not fit the schema of the environment's version.",
        fix="Mend the renderer.",
        source="PyPI kubernetes-validate",
        bad="spec: {nodeSelectr: {}}",
        good="spec: {nodeSelector: {}}",
    ),
)
loader_rule(
    "VAL006",
    Severity.ERROR,
    Doc(
        title="Configuration values of an add-on",
        symptom="The add-on fails to create after its cluster is up.",
        cause="The value is one text for CloudFormation; it is not JSON, or has keys that the add-on lacks.",
        fix="Mend the construct, or `operator.configuration`.",
        source="config/facts/addon_configuration.yaml",
        bad='ConfigurationValues: "{replicaCount: 1"',
        good='ConfigurationValues: "{\\"replicaCount\\": 1}"',
    ),
)
