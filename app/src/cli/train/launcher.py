"""Starts the processes of one node: as torchrun does where it is installed, else by itself.

Given as `python3 -c` on every node, with the directory to work in, the script, and its arguments.
A script that comes along in SETPOINT_SCRIPT is put into a file first. Scripts find what torchrun
tells them: RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. Where a node runs several, each
line says whose it is.
"""
import os, shutil, signal, subprocess, sys, tempfile, threading, time

directory, script, *arguments = sys.argv[1:]
source = os.environ.pop("SETPOINT_SCRIPT", None)
place = None
if source is not None:
    place = tempfile.mkdtemp()
    script = os.path.join(place, os.path.basename(script))
    with open(script, "w") as file:
        file.write(source)
elif os.path.isdir(directory):
    os.chdir(directory)
get = os.environ.get
nodes, node = int(get("PET_NNODES", "1")), int(get("PET_NODE_RANK", "0"))
processes = get("PET_NPROC_PER_NODE", "1")
by_torchrun = processes != "1" and shutil.which("torchrun")
processes = int(processes) if processes.isdigit() else 1


def environment(local):
    numbers = {"RANK": node * processes + local, "LOCAL_RANK": local, "GROUP_RANK": node,
               "WORLD_SIZE": nodes * processes, "LOCAL_WORLD_SIZE": processes}
    told = {name: str(number) for name, number in numbers.items()}
    told["MASTER_ADDR"] = get("PET_MASTER_ADDR", "localhost")
    told["MASTER_PORT"] = get("PET_MASTER_PORT", "29500")
    return {**os.environ, **told}


if by_torchrun:
    command, environments = [by_torchrun, script, *arguments], [dict(os.environ)]
else:
    command = [sys.executable, "-u", script, *arguments]
    environments = [environment(local) for local in range(processes)]
if len(environments) == 1 and place is None:
    os.execve(command[0], command, environments[0])
ranks = [one.get("RANK") for one in environments]
is_told = len(environments) > 1
output = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT) if is_told else {}
running = [subprocess.Popen(command, env=one, **output) for one in environments]
whole = threading.Lock()
is_stopped = threading.Event()


def stop(*_):
    is_stopped.set()
    for one in running:
        one.terminate()


signal.signal(signal.SIGTERM, stop)


def say(rank, line):
    with whole:
        sys.stdout.buffer.write(b"[rank %s] %s\n" % (rank.encode(), line.rstrip(b"\n")))
        sys.stdout.buffer.flush()


def copy(stream, rank):
    for line in stream:
        say(rank, line)


copies = [threading.Thread(target=copy, args=(one.stdout, rank), daemon=True)
          for one, rank in zip(running, ranks) if is_told]
for one in copies:
    one.start()
of = dict(zip(running, ranks))
# The first that fails ends the others: they would wait for it.
code, failed = 0, None
while running:
    for one in [one for one in running if one.poll() is not None]:
        running.remove(one)
        if one.returncode != 0 and code == 0:
            code = one.returncode if one.returncode > 0 else 128 - one.returncode
            failed = of[one]
            for other in running:
                other.terminate()
    time.sleep(0.05)
# What a process left behind may hold its output open.
for one in copies:
    one.join(2)
if is_told and failed is not None and not is_stopped.is_set():
    say(failed, b"failed with exit code %d" % code)
if place is not None:
    shutil.rmtree(place, ignore_errors=True)
sys.exit(code)
