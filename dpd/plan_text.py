"""Draw a plan for people, in 80 columns."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dpd.advice_text import environment_advice, model_advice
from dpd.locality_text import locality_lines
from dpd.model_plan import ModelPlan
from dpd.plan import Plan
from dpd.plan_local import LocalPlan
from dpd.plan_local_text import local_model_lines, local_title, local_total
from dpd.plan_origins import explain_values
from dpd.quantity import GIB, MIB, format_bytes, format_gib
from dpd.sizing.capacity import groups
from dpd.sizing.gpu_memory import GpuMemory
from dpd.spec.merge import Merged
from dpd.spec.model import Model

_BAR_CELLS = 60


def print_plan(plan: Plan | LocalPlan, console: Console, *, explain: bool) -> None:
    """Print one environment's plan: nodes and cost, models, quotas, advice; on this machine its engines."""
    if isinstance(plan, LocalPlan):
        _print_local(plan, console, explain=explain)
        return
    environment = plan.environment
    title = Text(environment.name, style="bold").append(
        f"  {environment.region}, GPU zone {environment.gpu_zone_id}, Kubernetes "
        f"{environment.kubernetes.version}, operator {environment.operator.addon_version or 'not pinned'}",
        style="not bold",
    )
    console.print(title, _nodes(plan))
    for model in plan.models:
        console.print(_model(model))
        if explain:
            console.print(_origins(model.deployment.model, model.merged))
    console.print(_quotas(plan), _advice(plan))


def _print_local(plan: LocalPlan, console: Console, *, explain: bool) -> None:
    console.print(local_title(plan))
    for model in plan.models:
        console.print(*local_model_lines(model), sep="\n")
        if explain:
            console.print(_origins(model.deployment.model, model.merged))
    console.print(local_total(plan))


def _table(title: str, *columns: str, right: Iterable[str] = ()) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def _nodes(plan: Plan) -> Group:
    """Return the groups with their prices; what has no node is named in the total."""
    numbers = ("nodes", "GPUs", "EFA", "addresses", "USD/h")
    table = _table("", "group", "instance type", *numbers, right=numbers)
    prices = {line.name: line.usd_per_hour for line in plan.cost.lines}
    for name, group in groups(plan.environment).items():
        row = plan.facts.instances.get(group.instance_type)
        facts = (row.gpu_count, row.efa_devices, row.addresses_per_node) if row else ()
        cells = [str(number * group.count) for number in facts] or ["?"] * 3
        cells.append(_price(prices.pop(f"{name} nodes")))
        table.add_row(name, group.instance_type, str(group.count), *cells)
    others = ", ".join(f"{name} {_price(price)}" for name, price in prices.items())
    total = f"{plan.cost.usd_per_hour:,.2f} USD per hour, {plan.cost.usd_per_month:,.0f} USD per month"
    parts = (part.removeprefix("price of ") for line in plan.cost.lines for part in line.note.split(", "))
    notes = dict.fromkeys(part for part in parts if part)
    lines: list[RenderableType] = [table, f"besides: {others}"]
    lines.append(Text(f"{'' if plan.cost.complete else 'at least '}{total}, on demand", style="bold"))
    if notes:
        lines.append(Text(f"prices: {', '.join(notes)}", style="dim"))
    if plan.subnet:
        cidr = plan.environment.network.gpu_subnet_cidr
        lines.append(f"GPU subnet {cidr}: {plan.subnet.needed} of {plan.subnet.available} addresses needed")
    lines += locality_lines(plan.environment, [model.deployment for model in plan.models])
    return Group(*lines)


def _price(usd_per_hour: float | None) -> str:
    return "?" if usd_per_hour is None else f"{usd_per_hour:,.2f}"


def _model(plan: ModelPlan) -> Group:
    deployment, model = plan.deployment, plan.deployment.model
    how = f"{model.serving.mode}, {model.serving.runtime} runtime"
    how += f", {model.dpd.transport} transport" if deployment.disaggregated else ""
    head = Text(f"\n{model.name}", style="bold").append(f"  {how}", style="not bold")
    lines: list[RenderableType] = [head, Text(deployment.image.reference, style="dim"), _pods(plan)]
    for names, memory in _memories(plan):
        lines += [f"GPU memory, {' and '.join(names)} (per GPU)", *_memory_bar(memory)]
    lines += _kv_lines(plan)
    return Group(*lines)


def _pods(plan: ModelPlan) -> Table:
    numbers = ("pods", "GPUs", "EFA", "cores", "host memory", "max seqs", "KV fits")
    table = _table("", "each", *numbers, right=numbers)
    for role in plan.deployment.roles:
        resources, use, fits = role.resources, plan.host.get(role.name), plan.sequences(role)
        share = f" of {format_gib(use.share_bytes, 0)}" if use else ""
        memory = use.needed_bytes if use else resources.memory_request_bytes
        table.add_row(
            role.name,
            str(role.replicas),
            str(resources.gpus),
            str(resources.efa_devices),
            str(resources.cpu),
            f"{format_gib(memory, 0).removesuffix(' GiB') if share else format_gib(memory, 0)}{share}",
            str(role.engine.integer("max-num-seqs") or "?"),
            "?" if fits is None else f"{fits:,}",
        )
    return table


def _memories(plan: ModelPlan) -> list[tuple[list[str], GpuMemory]]:
    """Return each different budget once, with the roles that have it."""
    budgets: list[tuple[list[str], GpuMemory]] = []
    for name, memory in plan.memory.items():
        same = next((names for names, known in budgets if known == memory), None)
        if same is None:
            budgets.append(([name], memory))
        else:
            same.append(name)
    return budgets


def _memory_bar(memory: GpuMemory) -> list[Text]:
    """Draw the parts of one GPU's memory as a bar and name them with their sizes."""
    parts = [
        ("weights", memory.weight_bytes, "blue", "#"),
        ("activations", memory.activation_bytes, "cyan", "+"),
        ("KV", max(0, memory.kv_room_bytes), "green", "="),
        ("PD buffer", memory.pd_buffer_bytes, "yellow", "%"),
        ("reserve", memory.reserve_bytes, "magenta", "r"),
    ]
    bar, legend = Text("  ["), Text("  ")
    for name, size, style, mark in parts:
        bar.append(mark * round(size / memory.total_bytes * _BAR_CELLS), style=style)
        if size:
            legend.append(f"{mark} ", style=style).append(f"{name} {size / GIB:.1f}  ")
    free = max(0, memory.free_bytes)
    bar.append("." * round(free / memory.total_bytes * _BAR_CELLS), style="bright_black")
    bar.append(f"] {format_gib(memory.total_bytes, 0)}")
    legend.right_crop(2)
    room = f"  KV {memory.kv_room_tokens:,} tokens; free {format_gib(free)}; gpu_memory_utilization"
    return [bar, legend, Text(f"{room} {memory.utilization:g}, at most {memory.largest_utilization:g}")]


def _kv_lines(plan: ModelPlan) -> list[str]:
    workload, lines = plan.deployment.model.workload, list[str]()
    if plan.buffer:
        buffer = plan.buffer.buffer
        lines += [
            f"KV cache: {buffer.bytes_per_token:,} bytes per token and rank, pages of {buffer.page_tokens} "
            f"tokens ({buffer.page_bytes / MIB:g}MiB)",
            f"PD buffer {format_bytes(buffer.buffer_bytes)} per rank: {buffer.pages:,} whole pages, "
            f"{buffer.tokens:,} tokens,\n  {buffer.prompts(workload.input_tokens)} prompts of "
            f"{workload.input_tokens:,} tokens; the workload keeps {plan.buffer.prompts_in_flight} in flight",
        ]
    if plan.transfers:
        first = plan.transfers[0]
        lines.append(
            f"moving {first.tokens:,} tokens takes {first.line_rate_s * 1e3:.1f} ms at line rate, "
            f"{first.expected_s * 1e3:.1f} ms expected"
        )
    return lines


def _quotas(plan: Plan) -> Table:
    """Return the quotas whose default is not known to suffice."""
    table = _table("\nQuotas to ask for", "quota", "needed", "default", right=("needed", "default"))
    for need in plan.quotas:
        if need.default is None or need.default < need.needed:
            table.add_row(need.name, str(need.needed), "?" if need.default is None else f"{need.default:g}")
    return table


def _advice(plan: Plan) -> Group:
    """Return everything that the numbers advise: what concerns the environment, then each model."""
    parts: list[RenderableType] = [Text("\nAdvice", style="bold"), _bullets(environment_advice(plan))]
    for model in plan.models:
        parts += [Text(model.deployment.model.name, style="bold"), _bullets(model_advice(model))]
    return Group(*parts)


def _bullets(lines: Iterable[str]) -> Table:
    table = Table.grid(padding=(0, 1))
    for line in lines:
        table.add_row("-", line)
    return table


def _origins(model: Model, merged: Merged) -> Table:
    table = _table(f"\nWhere the values of {model.name} come from", "key", "value", "origin")
    for row in explain_values(model, merged):
        table.add_row(row["key"], row["value"], row["origin"])
    return table
