"""Jobs that end well: what ranks get, and what becomes of what they print."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.command import Ended
from shardwise import __version__
from shardwise.launch.cores import THREAD_VARIABLES, find_cores, split_cores

Script = Callable[[str], Path]
Run = Callable[..., Ended]

TELL = """
    import json, os, sys
    names = {names!r}
    sys.stdout.write(json.dumps({{
        "argv": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__,
        "cores": sorted(os.sched_getaffinity(0)), "env": {{name: os.environ.get(name) for name in names}},
    }}) + "\\n")
"""
NAMES = (
    *THREAD_VARIABLES,
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "SHARDWISE_RUN_ID", "SHARDWISE_RESTART_COUNT", "SHARDWISE_CONTROL"),
)


def told(line: str) -> dict[str, object]:
    return dict(json.loads(line))


def test_arguments_reach_the_script_untouched(script: Script, run: Run) -> None:
    path = script("import sys; print(sys.argv)")
    arguments = ["-n", "7", "--help", "--dry-run", "--", "-m", "x y", "--version", ""]
    done = run("-n", 2, "script.py", *arguments)
    assert done.code == 0
    assert done.lines_of(0) == done.lines_of(1) == [repr(["script.py", *arguments])]
    assert path.exists()


def test_ranks_get_their_place_their_cores_and_their_threads(script: Script, run: Run) -> None:
    path = script(TELL.format(names=NAMES))
    done = run("-n", 2, path)
    assert (done.code, done.said) == (0, "")
    ranks = [told(done.lines_of(rank)[0]) for rank in range(2)]
    cores = find_cores()
    shares = split_cores(cores.allowed, 2) if cores.pinnable and cores.count >= 2 else [cores.allowed] * 2
    for rank, seen in enumerate(ranks):
        env = seen["env"]
        assert isinstance(env, dict)
        assert seen["cores"] == sorted(shares[rank])
        assert [env[name] for name in THREAD_VARIABLES] == [str(max(1, cores.count // 2))] * len(
            THREAD_VARIABLES
        )
        assert (
            (env["RANK"], env["WORLD_SIZE"])
            == (env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"])
            == (str(rank), "2")
        )
        assert (env["NODE_RANK"], env["MASTER_ADDR"], env["SHARDWISE_RESTART_COUNT"]) == (
            "0",
            "127.0.0.1",
            "0",
        )
        assert env["SHARDWISE_CONTROL"] is None
        # As `python script.py` has it.
        assert (seen["name"], seen["file"], seen["path"]) == ("__main__", str(path), str(path.parent))
    assert (
        len(
            {
                json.dumps([seen["env"][name] for name in ("SHARDWISE_RUN_ID", "MASTER_PORT")])
                for seen in ranks
            }
        )
        == 1
    )  # type: ignore[index]


def test_threads_that_the_user_set_stay(script: Script, run: Run) -> None:
    path = script(TELL.format(names=THREAD_VARIABLES))
    env = told(run(path, OMP_NUM_THREADS="3").out)["env"]
    assert env == {"OMP_NUM_THREADS": "3"} | dict.fromkeys(THREAD_VARIABLES[1:])
    env = told(run(path, MKL_NUM_THREADS="5").out)["env"]
    assert isinstance(env, dict)
    assert env["MKL_NUM_THREADS"] == "5"
    assert env["OPENBLAS_NUM_THREADS"] == str(find_cores().count)


def test_share_gpus_is_handed_to_the_ranks(script: Script, run: Run) -> None:
    tell = script("import os\nprint(os.environ.get('SHARDWISE_SHARE_GPUS'))")
    shared, apart = run("-n", 2, "--share-gpus", tell), run("-n", 2, tell)
    for rank in range(2):
        assert shared.lines_of(rank) == ["1"]
        assert apart.lines_of(rank) == ["None"]


def test_no_pin_leaves_all_cores(script: Script, run: Run) -> None:
    done = run("-n", 2, "--no-pin", script(TELL.format(names=())))
    assert told(done.lines_of(1)[0])["cores"] == sorted(os.sched_getaffinity(0))


def test_mpi_sees_all_ranks(script: Script, run: Run) -> None:
    path = script("""
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        print(world.rank, world.size, world.allreduce(10 ** world.rank))
    """)
    done = run("-n", 3, path)
    assert (done.code, done.said) == (0, "")
    assert [done.lines_of(rank) for rank in range(3)] == [[f"{rank} 3 111"] for rank in range(3)]


def test_more_ranks_than_cores_warns_and_goes_on(script: Script, run: Run) -> None:
    cores = find_cores().count
    done = run("-n", cores + 1, script("print('here')"))
    assert done.code == 0
    assert done.err.startswith(f"shardwise run: warning: {cores + 1} ranks share {cores} core")
    assert f"-n {cores} gives each a core of its own" in done.err
    assert done.out.count("here") == cores + 1


def test_one_rank_needs_no_mpi_and_has_no_prefix(script: Script, run: Run) -> None:
    path = script("import sys; print(sys.stdin.read().upper()); print('e', file=sys.stderr); sys.exit(4)")
    # An mpi4py that cannot be imported does not matter.
    (path.parent / "mpi4py.py").write_text("raise ImportError('no MPI here')")
    done = run(path, stdin="read", PYTHONPATH=str(path.parent))
    assert (done.code, done.out, done.err) == (4, "READ\n", "e\n")


def test_a_module_runs_as_with_python_m(tmp_path: Path, run: Run) -> None:
    package = tmp_path / "parcel"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        "import sys; from . import part; print(__spec__.name, part.x, sys.argv)"
    )
    (package / "part.py").write_text("x = 5\nif __name__ == '__main__': print(__package__)")
    done = run("-n", 2, "-m", "parcel", "-n", "3")
    assert done.code == 0
    assert done.lines_of(1) == [f"parcel.__main__ 5 {[str(package / '__main__.py'), '-n', '3']}"]
    assert run("-m", "parcel.part").out == "parcel\n"


def test_rank_0_reads_the_input_and_others_read_nothing(script: Script, run: Run) -> None:
    done = run("-n", 2, script("import sys; print(repr(sys.stdin.read()))"), stdin="a line\n")
    assert done.code == 0
    assert [done.lines_of(0), done.lines_of(1)] == [["'a line\\n'"], ["''"]]


def test_lines_stay_whole_and_streams_apart(script: Script, run: Run) -> None:
    path = script("""
        import os, sys
        for i in range(500):
            os.write(1, f"{i:03d} begins, ".encode())
            os.write(1, b"x" * 50 + b"\\n")
        os.system("echo from a child >&2")
        sys.stdout.write("no newline at the end")
    """)
    done = run("-n", 2, path)
    expected = [f"{i:03d} begins, " + "x" * 50 for i in range(500)] + ["no newline at the end"]
    assert done.lines_of(0) == done.lines_of(1) == expected
    assert sorted(done.said.splitlines()) == ["[r0] from a child", "[r1] from a child"]
    assert all(line.startswith(("[r0] ", "[r1] ")) for line in done.out.splitlines())


def test_no_prefix_and_log_dir(script: Script, run: Run, tmp_path: Path) -> None:
    path = script("import os, sys; print('out', os.environ['RANK']); print('err', file=sys.stderr)")
    done = run("-n", 2, "--no-prefix", "--log-dir", "logs/here", path)
    assert sorted(done.out.splitlines()) == ["out 0", "out 1"]
    logs = {log.name: log.read_text() for log in (tmp_path / "logs/here").iterdir()}
    assert logs == {"0.out": "out 0\n", "1.out": "out 1\n", "0.err": "err\n", "1.err": "err\n"}


def test_dry_run_prints_a_command_that_works(script: Script, run: Run, tmp_path: Path) -> None:
    path = script("""
        import sys
        from mpi4py import MPI
        open(f"rank {MPI.COMM_WORLD.rank}", "w").write(f"{MPI.COMM_WORLD.size} {sys.argv[1:]}")
        sys.exit(MPI.COMM_WORLD.rank)
    """)
    done = run("-n", 2, "--dry-run", path, "an argument")
    assert done.code == 0
    assert "MASTER_ADDR=127.0.0.1 \\\n" in done.out
    again = subprocess.run(
        ["sh", "-c", done.out], capture_output=True, text=True, timeout=150, cwd=tmp_path, check=False
    )
    assert again.returncode != 0
    assert [(tmp_path / f"rank {rank}").read_text() for rank in range(2)] == ["2 ['an argument']"] * 2


def test_a_reader_that_leaves_ends_the_job_quietly(script: Script, tmp_path: Path) -> None:
    path = script("while True: print('y' * 100)")
    command = f"{sys.executable} -m shardwise run -n 2 {path} | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=150, check=False)
    assert done.stdout in (f"[r{rank}] {'y' * 100}\n" for rank in range(2))
    assert done.stderr == ""


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(script: Script, tmp_path: Path, ranks: int, closed: str) -> None:
    path = script(
        "import os, sys; sys.stdin.read(); print('out'); print('err', file=sys.stderr); os._exit(3)"
    )
    command = f"{sys.executable} -m shardwise run -n {ranks} --no-prefix {path} {closed}"
    done = subprocess.run(
        ["sh", "-c", command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert ("exited with code 3" in done.stderr) == (ranks > 1 and "2>&-" not in closed)


def test_output_that_cannot_be_written_ends_the_job_in_one_line(script: Script) -> None:
    path = script("while True: print('y' * 100)")
    command = f"{sys.executable} -m shardwise run -n 2 {path} > /dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=150, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "shardwise run: the job was stopped: cannot write to stdout: No space left on device\n",
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("arguments", "code"), [("-n 2 {path}", 9), ("-n 1 {path}", 9), ("-n 0 {path}", 2), ("-n 2 absent.py", 2)]
)
def test_what_cannot_be_said_leaves_the_exit_code(
    script: Script, arguments: str, code: int, unbuffered: str
) -> None:
    path = script("import os; os._exit(9)")
    command = f"{sys.executable} -m shardwise run {arguments.format(path=path)} 2> /dev/full"
    environ = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(["sh", "-c", command], env=environ, timeout=150, check=False)
    assert done.returncode == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "0", "script.py"], "the number of ranks must be at least 1, got 0"),
        (["-n", "2", "absent.py"], "there is no script 'absent.py' in {cwd}"),
        (["-n", "2", "absent"], "there is no script 'absent' in {cwd} (a module is run with -m absent)"),
        (["-n", "2", "-m", "absent.part"], "no module named 'absent' for {python} (in 'absent.part')"),
        (["-n", "2", "-m", "json.absent"], "no module named 'json.absent' for {python}"),
        (["-n", "2", "-m", "json.tool.x"], "no module named 'json.tool.x': 'json.tool' is not a package"),
        (["-n", "2", "-m", "json"], "'json' is a package without __main__.py, so -m cannot run it"),
        (["-n", "2", "."], "cannot run the folder '.': it has no __main__.py"),
        (["-n", "2"], "what is to be run? Give a script, or -m and a module: shardwise run -n 2 script.py"),
        (
            ["-n", "9999", "script.py"],
            "9999 ranks on {cores} is more than 16 per core: use -n {count}, or --oversubscribe if you mean "
            "it",
        ),
        (
            ["-n", "2", "--show-ranks", "1,4-5", "script.py"],
            "--show-ranks names ranks 4-5, but the job has 2, from 0",
        ),
        (["-n", "2", "--mpiexec", "absent", "script.py"], "--mpiexec absent: no such program"),
    ],
)  # fmt: skip
def test_what_cannot_be_started_is_said_in_one_line(
    arguments: list[str], message: str, script: Script, run: Run, tmp_path: Path
) -> None:
    script("open('ran', 'w')")
    done = run(*arguments)
    count = find_cores().count
    cores = f"{count} {'core' if count == 1 else 'cores'}"
    expected = message.format(cwd=tmp_path, python=sys.executable, cores=cores, count=count)
    assert (done.code, done.err) == (2, f"shardwise run: {expected}\n")
    assert not (tmp_path / "ran").exists()


def test_no_job_inside_a_job(script: Script, run: Run) -> None:
    path = script(f"""
        import subprocess, sys
        subprocess.run([{sys.executable!r}, "-m", "shardwise", "run", "-n", "2", "other.py"])
    """)
    (path.parent / "other.py").write_text("print('never')")
    done = run("-n", 2, path)
    assert "never" not in done.out
    assert (
        "[r1] shardwise run: this process is already rank 1 of 2 of a shardwise job, and a rank" in done.err
    )


def test_a_world_of_one_may_start_a_job(script: Script, run: Run) -> None:
    path = script(f"""
        import subprocess, sys
        subprocess.run([{sys.executable!r}, "-m", "shardwise", "run", "-n", "2", "other.py"], check=True)
    """)
    (path.parent / "other.py").write_text("import os; print(os.environ['WORLD_SIZE'])")
    done = run(path)
    assert (done.code, done.lines_of(0), done.lines_of(1)) == (0, ["2"], ["2"])


def test_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shardwise", "--version"],
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    assert done.stdout == f"shardwise {__version__}\n"


def test_only_some_ranks_are_shown(script: Script, run: Run, tmp_path: Path) -> None:
    path = script("import os, sys; print('out', os.environ['RANK']); print('err', file=sys.stderr)")
    done = run("-n", 3, "--show-ranks", "0,2", "--log-dir", "logs", path)
    assert sorted(done.out.splitlines()) == ["[r0] out 0", "[r2] out 2"]
    assert sorted(done.said.splitlines()) == ["[r0] err", "[r2] err"]
    assert (tmp_path / "logs" / "1.out").read_text() == "out 1\n"


def test_what_a_hidden_rank_wrote_last_is_shown_if_it_brought_the_job_down(script: Script, run: Run) -> None:
    path = script("""
        import os, sys, time
        if os.environ["RANK"] == "1":
            print("the library says why", file=sys.stderr, flush=True)
            os._exit(5)
        time.sleep(60)
    """)
    done = run("-n", 2, "--show-ranks", "0", path)
    assert done.code == 5
    assert done.said == (
        "shardwise run: rank 1 of 2 exited with code 5; the other rank was stopped\n"
        "shardwise run: the last that rank 1 wrote to stderr:\n"
        "the library says why\n"
    )


def test_restarts_write_into_folders_of_their_own(script: Script, run: Run, tmp_path: Path) -> None:
    path = script("""
        import os, sys
        print("attempt", os.environ["SHARDWISE_RESTART_COUNT"])
        if os.environ["SHARDWISE_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1":
            os._exit(5)
    """)
    assert run("-n", 2, "--restarts", 1, "--log-dir", "logs", path).code == 0
    assert (tmp_path / "logs" / "1.out").read_text() == "attempt 0\n"
    assert (tmp_path / "logs" / "restart1" / "1.out").read_text() == "attempt 1\n"


def test_srun_starts_the_ranks_inside_its_allocation(script: Script, run: Run, tmp_path: Path) -> None:
    """With a stand-in for srun, which starts processes as it would."""
    (tmp_path / "bin").mkdir()
    srun = tmp_path / "bin" / "srun"
    srun.write_text(f"""#!{sys.executable}
import os, subprocess, sys
n = int(next(word for word in sys.argv if word.startswith("--ntasks=")).partition("=")[2])
open("srun", "w").write(" ".join(sys.argv[1:]))
program = sys.argv[sys.argv.index("--export=ALL") + 1:]
step = {{"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(n)}}
tasks = [subprocess.Popen(program, env=os.environ | step | {{"SLURM_PROCID": str(i)}}) for i in range(n)]
sys.exit(max(task.wait() for task in tasks))
""")
    srun.chmod(0o755)
    host = socket.gethostname()
    slurm = {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": host,
        "SLURM_NTASKS": "2",
        "SLURM_TASKS_PER_NODE": "2",
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    path = script(TELL.format(names=NAMES))
    done = run("--launcher", "srun", path, **slurm)
    assert (done.code, done.err) == (0, "")
    assert (
        (tmp_path / "srun")
        .read_text()
        .startswith(f"--ntasks=2 --nodes=1 --distribution=block --ntasks-per-node=2 --nodelist={host} --mpi=")
    )
    for rank in range(2):
        env = told(done.lines_of(rank)[0])["env"]
        assert isinstance(env, dict)
        places = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")
        assert [env[name] for name in places] == [str(rank), "2", str(rank), "2", "0"]
    assert run(path, **slurm).lines_of(1)  # and without it, mpiexec does, on this host
