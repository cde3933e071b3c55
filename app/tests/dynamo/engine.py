# Stands for an engine that spans many pods: all join the first, and the first serves for all.
import argparse, os, socket, sys, time
flags = argparse.ArgumentParser()
for name in ("-m", "--model-path", "--model-name", "--dist-init-addr"):
    flags.add_argument(name)
for name in ("--nnodes", "--node-rank"):
    flags.add_argument(name, type=int)
said = flags.parse_args()
host, port = said.dist_init_addr.rsplit(":", 1)
if said.node_rank > 0:
    while True:
        try:
            leader = socket.create_connection((host, int(port)), 2)
            break
        except OSError:
            time.sleep(0.1)
    leader.settimeout(None)
    leader.sendall(f"{said.node_rank}\n".encode())
    print(f"{said.node_rank} of {said.nnodes} joined {host}", flush=True)
    leader.recv(1)
    sys.exit("the leader has gone")
waits = socket.create_server(("", int(port)))
for _ in range(1, said.nnodes):
    member, _ = waits.accept()
    rank = member.makefile().readline().strip()
    member.set_inheritable(True)
    print(f"joined by {rank}", flush=True)
    member.detach()
os.execv(sys.executable, [sys.executable, "-m", "dynamo.mocker", "--model-path", said.model_path,
    "--model-name", said.model_name, "--speedup-ratio", "0", "--num-gpu-blocks-override", "1024"])
