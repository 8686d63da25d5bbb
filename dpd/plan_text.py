"""Draw a plan for people."""

from __future__ import annotations

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from dpd.plan import ModelPlan, Plan, explain_values
from dpd.quantity import format_bytes, format_gib
from dpd.sizing.capacity import groups
from dpd.sizing.gpu_memory import GpuMemory

_BAR_CELLS = 48


def print_plan(plan: Plan, console: Console, *, explain: bool) -> None:
    """Print one environment's plan: topology, models, cost, quotas."""
    environment = plan.environment
    console.print(Text(f"{environment.name}", style="bold"), end="")
    console.print(
        f"  {environment.region}, GPU zone {environment.gpu_zone_id}, Kubernetes "
        f"{environment.kubernetes.version}, operator {environment.operator.addon_version or 'not pinned'}"
    )
    support = plan.facts.kubernetes.get(environment.kubernetes.version)
    if support and support.standard_support_until:
        console.print(
            f"EKS standard support of {environment.kubernetes.version} ends on "
            f"{support.standard_support_until}; the control plane costs more from then on"
        )
    if not environment.kubernetes.admin_arns:
        console.print("Nobody can use kubectl: kubernetes.admin_arns is empty")
    console.print(_groups(plan))
    for model in plan.models:
        console.print(_model(model))
        if explain:
            console.print(_origins(model))
    console.print(_cost(plan))
    console.print(_quotas(plan))


def _table(title: str, *columns: str, right: tuple[str, ...] = ()) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def _groups(plan: Plan) -> Group:
    table = _table(
        "Nodes",
        "group",
        "instance type",
        "nodes",
        "GPUs",
        "EFA devices",
        "addresses",
        right=("nodes", "GPUs", "EFA devices", "addresses"),
    )
    for name, group in groups(plan.environment).items():
        row = plan.facts.instances.get(group.instance_type)
        numbers = (row.gpu_count, row.efa_devices, row.addresses_per_node) if row else ("?", "?", "?")
        cells = [str(number * group.count) if isinstance(number, int) else number for number in numbers]
        table.add_row(name, group.instance_type, str(group.count), *cells)
    lines: list[Table | str] = [table]
    if plan.subnet:
        cidr = plan.environment.network.gpu_subnet_cidr
        lines.append(f"GPU subnet {cidr}: {plan.subnet.needed} of {plan.subnet.available} addresses needed")
    if plan.environment.network.placement_group != "none":
        lines.append("The placement group stays empty of HyperPod nodes: they cannot join one.")
    return Group(*lines)


def _model(plan: ModelPlan) -> Group:
    deployment, model = plan.deployment, plan.deployment.model
    how = f"{model.serving.mode}, {model.serving.runtime} runtime"
    how += f", {model.dpd.transport} transport" if deployment.disaggregated else ""
    lines: list[Table | Text | str] = [
        "",
        Text(model.name, style="bold").append(f"  {how}", style="not bold"),
    ]
    lines.append(f"image {deployment.image.reference}")
    table = _table(
        "",
        "role",
        "replicas",
        "GPUs each",
        "EFA each",
        "CPU each",
        "memory each",
        "on",
        right=("replicas", "GPUs each", "EFA each", "CPU each", "memory each"),
    )
    for role in deployment.roles:
        resources = role.resources
        table.add_row(
            role.name,
            str(role.replicas),
            str(resources.gpus),
            str(resources.efa_devices),
            str(resources.cpu),
            format_gib(resources.memory_request_bytes, 0),
            role.group.instance_type,
        )
    lines.append(table)
    for name, memory in plan.memory.items():
        lines += [Text(f"GPU memory, {name} (per GPU)"), *_memory_bar(memory)]
    lines += _buffer_lines(plan)
    return Group(*lines)


def _memory_bar(memory: GpuMemory) -> list[Text]:
    """Draw the parts of one GPU's memory as a bar and name them with their sizes."""
    parts = [
        ("weights", memory.weight_bytes, "blue", "#"),
        ("activations", memory.activation_bytes, "cyan", "+"),
        (f"KV room ({memory.kv_room_tokens:,} tokens)", max(0, memory.kv_room_bytes), "green", "="),
        ("PD buffer", memory.pd_buffer_bytes, "yellow", "%"),
        ("reserve", memory.reserve_bytes, "magenta", "r"),
        ("free", max(0, memory.free_bytes), "bright_black", "."),
    ]
    bar, legend = Text("  ["), Text("  ")
    for name, size, style, mark in parts:
        bar.append(mark * round(size / memory.total_bytes * _BAR_CELLS), style=style)
        if size:
            legend.append(f"{mark} ", style=style).append(f"{name} {format_gib(size)}  ")
    bar.append(f"] {format_gib(memory.total_bytes, 0)}")
    return [bar, legend]


def _buffer_lines(plan: ModelPlan) -> list[str]:
    workload = plan.deployment.model.workload
    lines: list[str] = []
    if plan.buffer:
        buffer = plan.buffer
        lines += [
            f"KV cache: {buffer.bytes_per_token:,} bytes per token and rank, pages of {buffer.page_tokens} "
            f"tokens ({format_bytes(buffer.page_bytes)})",
            f"PD buffer {format_bytes(buffer.buffer_bytes)} per rank: {buffer.tokens:,} tokens, "
            f"{buffer.prompts(workload.input_tokens)} prompts of {workload.input_tokens:,} tokens; the "
            f"workload keeps {plan.prompts_in_flight} in flight",
        ]
    if plan.transfer_s is not None:
        lines.append(
            f"Moving {workload.input_tokens:,} tokens takes {plan.transfer_s * 1e3:.1f} ms at line rate"
        )
    return lines


def _cost(plan: Plan) -> Group:
    table = _table("\nCost", "", "units", "USD per hour", "", right=("units", "USD per hour"))
    for line in plan.cost.lines:
        price = "?" if line.usd_per_hour is None else f"{line.usd_per_hour:,.2f}"
        table.add_row(f"{line.name} ({line.what})", str(line.count), price, line.note)
    total = f"{plan.cost.usd_per_hour:,.2f} USD per hour, {plan.cost.usd_per_month:,.0f} USD per month"
    if not plan.cost.complete:
        total = f"at least {total}"
    return Group(table, Text(f"In total {total}, on demand", style="bold"))


def _quotas(plan: Plan) -> Table:
    table = _table("\nQuotas to ask for", "quota", "needed", "default", right=("needed", "default"))
    for need in plan.quotas:
        table.add_row(need.name, str(need.needed), "?" if need.default is None else f"{need.default:g}")
    return table


def _origins(plan: ModelPlan) -> Table:
    table = _table(f"\nWhere the values of {plan.deployment.model.name} come from", "key", "value", "origin")
    for row in explain_values(plan):
        table.add_row(row["key"], row["value"], row["origin"])
    return table
