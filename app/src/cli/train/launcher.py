"""Starts the processes of one node: as torchrun does where it is installed, else by itself.

Given as `python3 -c` on every node, with the directory to work in, the script, and its arguments.
Scripts find what torchrun tells them: RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
"""
import os, shutil, signal, subprocess, sys, time

directory, script, *arguments = sys.argv[1:]
if os.path.isdir(directory):
    os.chdir(directory)
get = os.environ.get
nodes, node = int(get("PET_NNODES", "1")), int(get("PET_NODE_RANK", "0"))
processes = get("PET_NPROC_PER_NODE", "1")
if processes != "1" and shutil.which("torchrun"):
    os.execvp("torchrun", ["torchrun", script, *arguments])
processes = int(processes) if processes.isdigit() else 1


def environment(local):
    numbers = {"RANK": node * processes + local, "LOCAL_RANK": local, "GROUP_RANK": node,
               "WORLD_SIZE": nodes * processes, "LOCAL_WORLD_SIZE": processes}
    told = {name: str(number) for name, number in numbers.items()}
    told["MASTER_ADDR"] = get("PET_MASTER_ADDR", "localhost")
    told["MASTER_PORT"] = get("PET_MASTER_PORT", "29500")
    return {**os.environ, **told}


command = [sys.executable, "-u", script, *arguments]
if processes == 1:
    os.execve(command[0], command, environment(0))
running = [subprocess.Popen(command, env=environment(local)) for local in range(processes)]
signal.signal(signal.SIGTERM, lambda *_: [one.terminate() for one in running])
# The first that fails ends the others: they would wait for it.
code = 0
while running:
    for one in [one for one in running if one.poll() is not None]:
        running.remove(one)
        if one.returncode != 0 and code == 0:
            code = one.returncode if one.returncode > 0 else 128 - one.returncode
            for other in running:
                other.terminate()
    time.sleep(0.05)
sys.exit(code)
