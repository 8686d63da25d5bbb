"""A moto server on loopback, and a harness that makes there what a synthesised template describes.

Only the types of ``MAKERS`` are made: the parts of EC2, IAM and S3 that moto really keeps. Everything
else a template refers to gets a stand-in value. This is no deployment: moto would call one of EKS and
HyperPod a success without doing anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import boto3
import pytest

from dpd.facts import Facts
from dpd.spec.catalog import Catalog
from dpd.spec.deployment import build_deployment

ACCOUNT = "123456789012"
REGION = "us-west-2"
PSEUDO = {"AWS::AccountId": ACCOUNT, "AWS::Region": REGION, "AWS::Partition": "aws"}
Properties = dict[str, Any]
Templates = dict[str, dict[str, Any]]


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """Run moto's server on a free port of loopback; returns its address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def client(endpoint: str) -> Callable[[str], Any]:
    """Return a function that makes a client of one service at the server."""

    def make(service: str) -> Any:
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=endpoint,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    return make


@pytest.fixture(scope="session")
def templates_of(
    catalog: Catalog, facts: Facts, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Templates]:
    """Return ``templates_of(closed=True)``: the templates of dev by stack name."""
    from dpd.nodejs import use_bundled_node

    use_bundled_node()
    from stacks.environment import build_environment, new_app

    def build(**network: Any) -> Templates:
        dev, model = catalog.environments["dev"].value, catalog.models["llama-3.3-70b"].value
        assert dev is not None
        assert model is not None
        environment = dev.model_copy(update={"network": dev.network.model_copy(update=network)})
        app = new_app(tmp_path_factory.mktemp("cdk.out"), builtin_cloud_formation_validation=False)
        deployments = [] if network.get("closed") else [build_deployment(environment, model, facts)]
        build_environment(app, environment, deployments, facts)
        return {stack.stack_name: stack.template for stack in app.synth().stacks}

    return build


class Lab:
    """Make resources of templates, each once, and whatever they refer to before them."""

    def __init__(self, templates: Templates, client: Callable[[str], Any]) -> None:
        self.templates = templates
        self.ec2, self.iam, self.s3 = client("ec2"), client("iam"), client("s3")
        self.made: dict[str, Any] = {}

    def make(self, *kinds: str) -> dict[str, Any]:
        """Make every resource of the given types; returns ids by logical id."""
        return {
            name: self._id(stack, name)
            for stack, template in self.templates.items()
            for name, resource in template["Resources"].items()
            if resource["Type"] in kinds
        }

    def properties(self, kind: str) -> dict[str, Properties]:
        """Return the resolved properties of every resource of one type."""
        return {
            name: self.resolve(stack, resource.get("Properties", {}))
            for stack, template in self.templates.items()
            for name, resource in template["Resources"].items()
            if resource["Type"] == kind
        }

    def _id(self, stack: str, name: str) -> Any:
        key = f"{stack}/{name}"
        if key not in self.made:
            resource = self.templates[stack]["Resources"].get(name)
            kind = resource["Type"] if resource else ""
            if kind not in MAKERS:
                return ARNS.get(kind, "%s") % name.lower() if kind in KNOWN_BY_ARN else name.lower()
            for before in resource.get("DependsOn", []):
                self._id(stack, before)
            self.made[key] = MAKERS[kind](self, self.resolve(stack, resource["Properties"]))
        return self.made[key]

    def resolve(self, stack: str, value: Any) -> Any:
        """Return a value as CloudFormation would hand it to the service."""
        if isinstance(value, list):
            return [self.resolve(stack, item) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((function, argument),) = value.items()
            if function in FUNCTIONS:
                return FUNCTIONS[function](self, stack, argument)
        return {key: self.resolve(stack, item) for key, item in value.items()}

    def ref(self, stack: str, name: str) -> Any:
        return PSEUDO[name] if name in PSEUDO else self._id(stack, name)

    def attribute(self, stack: str, argument: list[str]) -> Any:
        name, attribute = argument
        resource = self.templates[stack]["Resources"][name]
        identifier = self._id(stack, name)
        if resource["Type"] == "Custom::AWSCDKCfnJson":
            return json.loads(self.resolve(stack, resource["Properties"]["Value"]))
        if attribute.endswith("Arn") and resource["Type"] not in KNOWN_BY_ARN:
            return ARNS.get(resource["Type"], f"arn:aws:standin:{REGION}:{ACCOUNT}:of/%s") % identifier
        return identifier

    def imported(self, _: str, name: str) -> Any:
        exporting = name.partition(":")[0]
        outputs = self.templates[exporting]["Outputs"].values()
        (value,) = (row["Value"] for row in outputs if row.get("Export", {}).get("Name") == name)
        return self.resolve(exporting, value)

    def substituted(self, stack: str, text: str) -> str:
        return re.sub(r"\$\{([^}]+)\}", lambda match: str(self.ref(stack, match[1])), text)


FUNCTIONS: dict[str, Callable[[Lab, str, Any], Any]] = {
    "Ref": Lab.ref,
    "Fn::GetAtt": Lab.attribute,
    "Fn::ImportValue": Lab.imported,
    "Fn::Sub": Lab.substituted,
    "Fn::Join": lambda lab, stack, argument: argument[0].join(
        str(lab.resolve(stack, part)) for part in argument[1]
    ),
    "Fn::Select": lambda lab, stack, argument: lab.resolve(stack, argument[1])[int(argument[0])],
    "Fn::Split": lambda lab, stack, argument: str(lab.resolve(stack, argument[1])).split(argument[0]),
}
# Types whose Ref is an ARN.
KNOWN_BY_ARN = {"AWS::IAM::OIDCProvider", "AWS::Lambda::LayerVersion", "AWS::StepFunctions::StateMachine"}
ARNS = {
    "AWS::S3::Bucket": "arn:aws:s3:::%s",
    "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/%s",
    "AWS::IAM::OIDCProvider": f"arn:aws:iam::{ACCOUNT}:oidc-provider/oidc.eks.{REGION}.amazonaws.com/id/%s",
    "AWS::Lambda::Function": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:%s",
    "AWS::Lambda::LayerVersion": f"arn:aws:lambda:{REGION}:{ACCOUNT}:layer:%s:1",
    "AWS::StepFunctions::StateMachine": f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:%s",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:%s:*",
}


# Call of EC2, the properties that it takes, and where its answer holds the id.
SIMPLE = {
    "VPC": ("create_vpc", "CidrBlock", "Vpc.VpcId"),
    "VPCCidrBlock": ("associate_vpc_cidr_block", "VpcId CidrBlock", "CidrBlockAssociation.AssociationId"),
    "Subnet": ("create_subnet", "VpcId CidrBlock AvailabilityZoneId", "Subnet.SubnetId"),
    "InternetGateway": ("create_internet_gateway", "", "InternetGateway.InternetGatewayId"),
    "VPCGatewayAttachment": ("attach_internet_gateway", "VpcId InternetGatewayId", ""),
    "EIP": ("allocate_address", "Domain", "AllocationId"),
    "NatGateway": ("create_nat_gateway", "SubnetId AllocationId", "NatGateway.NatGatewayId"),
    "RouteTable": ("create_route_table", "VpcId", "RouteTable.RouteTableId"),
    "Route": ("create_route", "RouteTableId DestinationCidrBlock GatewayId NatGatewayId", ""),
    "SubnetRouteTableAssociation": ("associate_route_table", "SubnetId RouteTableId", "AssociationId"),
}


def _simple(call: str, names: str, place: str) -> Callable[[Lab, Properties], Any]:
    def make(lab: Lab, properties: Properties) -> Any:
        request = {name: properties[name] for name in names.split() if name in properties}
        answer = getattr(lab.ec2, call)(**request)
        for part in place.split(".") if place else ():
            answer = answer[part]
        return answer if place else call

    return make


def _endpoint(lab: Lab, properties: Properties) -> str:
    wanted = {**properties, "PolicyDocument": json.dumps(properties.get("PolicyDocument", {}))}
    wanted.pop("Tags", None)
    return lab.ec2.create_vpc_endpoint(**wanted)["VpcEndpoint"]["VpcEndpointId"]


def _security_group(lab: Lab, properties: Properties) -> str:
    group = lab.ec2.create_security_group(
        GroupName=f"group-{len(lab.made)}",
        Description=properties["GroupDescription"],
        VpcId=properties["VpcId"],
    )["GroupId"]
    # CloudFormation takes the open default away where a template states rules of its own.
    everywhere = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    lab.ec2.revoke_security_group_egress(GroupId=group, IpPermissions=[everywhere])
    for rule in properties.get("SecurityGroupEgress", []):
        lab.ec2.authorize_security_group_egress(GroupId=group, IpPermissions=[_permission(rule)])
    for rule in properties.get("SecurityGroupIngress", []):
        lab.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[_permission(rule)])
    return group


def _permission(rule: Properties) -> Properties:
    permission = {key: rule[key] for key in ("IpProtocol", "FromPort", "ToPort") if key in rule}
    other = rule.get("SourceSecurityGroupId") or rule.get("DestinationSecurityGroupId")
    if other:
        return {**permission, "UserIdGroupPairs": [{"GroupId": other}]}
    return {**permission, "IpRanges": [{"CidrIp": rule["CidrIp"]}]}


def _rule(call: str) -> Callable[[Lab, Properties], str]:
    def make(lab: Lab, properties: Properties) -> str:
        getattr(lab.ec2, call)(GroupId=properties["GroupId"], IpPermissions=[_permission(properties)])
        return call

    return make


def _role(lab: Lab, properties: Properties) -> str:
    name = properties.get("RoleName") or f"role-{len(lab.iam.list_roles(MaxItems=1000)['Roles'])}"
    lab.iam.create_role(
        RoleName=name,
        AssumeRolePolicyDocument=json.dumps(properties["AssumeRolePolicyDocument"]),
        Description=properties.get("Description", ""),
    )
    for policy in properties.get("Policies", []):
        document = json.dumps(policy["PolicyDocument"])
        lab.iam.put_role_policy(RoleName=name, PolicyName=policy["PolicyName"], PolicyDocument=document)
    return name


def _policy(lab: Lab, properties: Properties) -> str:
    document = json.dumps(properties["PolicyDocument"])
    for role in properties["Roles"]:
        lab.iam.put_role_policy(RoleName=role, PolicyName=properties["PolicyName"], PolicyDocument=document)
    return properties["PolicyName"]


def _bucket(lab: Lab, properties: Properties) -> str:
    name = properties["BucketName"]
    lab.s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    lab.s3.put_public_access_block(
        Bucket=name, PublicAccessBlockConfiguration=properties["PublicAccessBlockConfiguration"]
    )
    lab.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=properties["VersioningConfiguration"])
    return name


def _bucket_policy(lab: Lab, properties: Properties) -> str:
    document = json.dumps(properties["PolicyDocument"])
    lab.s3.put_bucket_policy(Bucket=properties["Bucket"], Policy=document)
    return f"{properties['Bucket']}-policy"


MAKERS: Mapping[str, Callable[[Lab, Properties], Any]] = {
    **{f"AWS::EC2::{kind}": _simple(*how) for kind, how in SIMPLE.items()},
    "AWS::EC2::VPCEndpoint": _endpoint,
    "AWS::EC2::SecurityGroup": _security_group,
    "AWS::EC2::SecurityGroupIngress": _rule("authorize_security_group_ingress"),
    "AWS::EC2::SecurityGroupEgress": _rule("authorize_security_group_egress"),
    "AWS::IAM::Role": _role,
    "AWS::IAM::Policy": _policy,
    "AWS::S3::Bucket": _bucket,
    "AWS::S3::BucketPolicy": _bucket_policy,
}


@pytest.fixture(scope="session")
def new_lab(templates_of: Callable[..., Templates], client: Callable[[str], Any]) -> Callable[..., Lab]:
    """Return ``new_lab(closed=True)``: an empty lab with the templates of dev under other network options."""
    return lambda **network: Lab(templates_of(**network), client)


@pytest.fixture(scope="session")
def lab(new_lab: Callable[..., Lab]) -> Lab:
    """Return the lab of dev as it is."""
    return new_lab()
