"""What a supervisor and its processes do: start, die, change, end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from dpd.local.bring_up import Busy, Deployed, DeployFailed, only_one
from dpd.local.home import EnvironmentFolder
from dpd.local.processes import identify
from dpd.local.state import Desired, ProcessSpec, ProcessState, SystemState, read, write
from dpd.local.system import LocalProcess, LocalSystem, NotReady, NotRunning

PATIENCE_S = 60
BringUp = Callable[[Desired], Deployed]


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def pids(processes: tuple[LocalProcess, ...]) -> dict[str, int | None]:
    return {process.name: process.pid for process in processes}


def everything(system: LocalSystem) -> list[psutil.Process]:
    """Return supervisor, leashes, commands and their children."""
    assert system.state is not None
    supervisor = psutil.Process(system.state.supervisor.pid)
    return [supervisor, *supervisor.children(recursive=True)]


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return those that run; an orphan that nobody has waited for yet does not."""
    return [
        process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    ]


def changed(desired: Desired, name: str, **update: object) -> Desired:
    processes = tuple(
        spec.model_copy(update=update) if spec.name == name else spec for spec in desired.processes
    )
    return desired.model_copy(update={"processes": processes})


def test_everything_is_ready_when_it_is_up(up: BringUp, desired: Desired, said: list[str]) -> None:
    done = up(desired)
    assert done.changed
    assert all(process.ready for process in done.system.processes)
    assert {line.partition(":")[0] for line in said} == {"prefill-0", "decode-0", "router"}
    assert done.system.router_url == desired.processes[-1].url
    assert [process.name for process in done.system.by_role("decode")] == ["decode-0"]
    assert all(process.memory_bytes > 0 and process.started for process in done.system.processes)


def test_the_same_again_changes_nothing(up: BringUp, desired: Desired) -> None:
    before = pids(up(desired).system.processes)
    done = up(desired)
    assert not done.changed
    assert pids(done.system.processes) == before


def test_a_killed_process_comes_back_at_its_address_and_leaves_no_child(
    up: BringUp, desired: Desired, folder: EnvironmentFolder
) -> None:
    system = up(desired).system
    log = folder.log("prefill-0").read_text(encoding="utf-8")
    child = psutil.Process(int(re.findall(r"child (\d+)", log)[0]))
    old = system.process("prefill-0").pid
    system.kill("prefill-0")
    until(lambda: system.process("prefill-0").state.restarts == 1 and system.well)
    new = system.process("prefill-0")
    assert new.pid != old
    assert new.url == desired.processes[0].url
    assert new.state.exit_code == 128 + signal.SIGKILL
    assert not alive([child])


def test_a_restarted_process_comes_back(up: BringUp, desired: Desired) -> None:
    system = up(desired).system
    system.restart("decode-0")
    until(lambda: system.process("decode-0").state.restarts == 1)
    system.wait_ready(timeout_s=PATIENCE_S)


def test_a_paused_process_is_not_ready_until_it_goes_on(up: BringUp, desired: Desired) -> None:
    system = up(desired).system
    process = system.process("router")
    assert process.pid is not None
    system.pause("router")
    until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    system.resume("router")
    until(lambda: psutil.Process(process.pid).status() != psutil.STATUS_STOPPED)


def test_a_change_replaces_what_changed_and_nothing_else(
    up: BringUp, desired: Desired, said: list[str]
) -> None:
    before = pids(up(desired).system.processes)
    said.clear()
    done = up(changed(desired, "decode-0", environment={"DPD_TEST": "1"}))
    after = pids(done.system.processes)
    assert done.changed
    assert {name for name in before if before[name] != after[name]} == {"decode-0"}
    assert [line.partition(":")[0] for line in said] == ["decode-0"]


def test_files_are_written_before_a_start(up: BringUp, desired: Desired, tmp_path: Path) -> None:
    file = tmp_path / "router.yaml"
    up(changed(desired, "router", files={str(file): "listen: {}\n"}))
    assert file.read_text(encoding="utf-8") == "listen: {}\n"


def test_what_is_no_longer_wanted_ends(up: BringUp, desired: Desired) -> None:
    pid = up(desired).system.process("prefill-0").pid
    done = up(desired.model_copy(update={"processes": desired.processes[1:]}))
    assert [process.name for process in done.system.processes] == ["decode-0", "router"]
    assert pid is not None
    assert not psutil.pid_exists(pid)


def test_a_failed_start_shows_the_log_and_leaves_nothing(
    up: BringUp, desired: Desired, folder: EnvironmentFolder
) -> None:
    program = "import sys; print('no weights there'); sys.exit(3)"
    with pytest.raises(DeployFailed) as failure:
        up(changed(desired, "prefill-0", command=(sys.executable, "-c", program)))
    (finding,) = failure.value.findings
    assert (finding.id, finding.path, finding.got) == ("LOC105", "prefill-0", 3)
    assert "no weights there" in finding.message
    assert str(folder.log("prefill-0")) in finding.fix
    assert not LocalSystem(folder).runs


def test_a_failed_change_keeps_the_rest(up: BringUp, desired: Desired) -> None:
    up(desired)
    broken = changed(desired, "decode-0", command=(sys.executable, "-c", "raise SystemExit(4)"))
    with pytest.raises(DeployFailed, match="LOC105"):
        up(broken)
    assert up(desired).system.well


def test_destroy_ends_everything(up: BringUp, desired: Desired) -> None:
    system = up(desired).system
    running = everything(system)
    assert sorted(system.destroy()) == ["decode-0", "prefill-0", "router"]
    assert not alive(running)
    assert system.state is None


def test_nothing_outlives_a_killed_supervisor(up: BringUp, desired: Desired) -> None:
    system = up(desired).system
    supervisor, *others = everything(system)
    supervisor.kill()
    until(lambda: not alive(others))


def test_a_system_whose_supervisor_was_killed_is_brought_up_again(up: BringUp, desired: Desired) -> None:
    system = up(desired).system
    everything(system)[0].kill()
    until(lambda: not system.runs)
    with pytest.raises(NotReady, match="supervisor has ended"):
        system.wait_ready(timeout_s=PATIENCE_S)
    assert up(desired).changed
    assert system.well


def test_destroy_ends_what_a_killed_supervisor_has_left(folder: EnvironmentFolder, desired: Desired) -> None:
    orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    state = SystemState(
        supervisor=identify(os.getpid()).model_copy(update={"created": 1.0}),
        applied=None,
        processes=(ProcessState(name="decode-0", identity=identify(orphan.pid)),),
    )
    write(folder.state, state)
    assert LocalSystem(folder).destroy() == ["decode-0"]
    assert orphan.wait(PATIENCE_S) is not None


def test_destroy_spares_a_process_that_only_has_the_same_pid(folder: EnvironmentFolder) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as bystander:
        other = identify(bystander.pid).model_copy(update={"created": 1.0})
        write(
            folder.state,
            SystemState(
                supervisor=other, applied=None, processes=(ProcessState(name="decode-0", identity=other),)
            ),
        )
        assert LocalSystem(folder).destroy() == []
        assert bystander.poll() is None
        bystander.kill()


def test_two_deploys_of_one_environment_exclude_each_other(folder: EnvironmentFolder) -> None:
    with only_one(folder), pytest.raises(Busy, match="locked"), only_one(folder):
        pass


def test_an_interrupted_deploy_ends_what_it_started(folder: EnvironmentFolder, desired: Desired) -> None:
    never = (sys.executable, "-c", "import time; time.sleep(600)")
    file = folder.path / "never.json"
    write(file, changed(desired, "prefill-0", command=never))
    program = f"""
import signal
from pathlib import Path
from dpd.local.bring_up import bring_up
from dpd.local.home import EnvironmentFolder
from dpd.local.state import Desired, read
# A shell's background jobs, and what they start, ignore it otherwise.
signal.signal(signal.SIGINT, signal.default_int_handler)
bring_up(EnvironmentFolder(Path({str(folder.path)!r})), read(Path({str(file)!r}), Desired), print, list)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as deploy:
        system = LocalSystem(folder)
        until(lambda: any(process.ready for process in system.processes))
        running = everything(system)
        deploy.send_signal(signal.SIGINT)
        assert deploy.wait(PATIENCE_S) != 0
    assert not alive(running)


def test_an_environment_that_is_not_deployed_cannot_be_loaded(tmp_path: Path) -> None:
    from dpd.local.home import Home

    with pytest.raises(NotRunning, match="`local` is not running"):
        LocalSystem.load("local", Home(tmp_path))


def test_state_and_desired_come_back_as_written(folder: EnvironmentFolder, desired: Desired) -> None:
    write(folder.desired, desired)
    assert read(folder.desired, Desired) == desired
    assert read(folder.state, SystemState) is None


def test_a_changed_command_changes_the_digest(desired: Desired) -> None:
    assert changed(desired, "router", command=("true",)).digest != desired.digest


def test_a_spec_refuses_what_it_does_not_know(desired: Desired) -> None:
    with pytest.raises(ValueError, match="Extra inputs"):
        ProcessSpec.model_validate({**desired.processes[0].model_dump(), "colour": "red"})
