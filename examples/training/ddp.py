"""Trains a small network on generated data with PyTorch's DistributedDataParallel.

    setpoint train examples/training/ddp.py --nodes 2 --watch

It reports nothing by itself: Setpoint reads progress and loss from the lines that it prints.
"""

import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    epochs = parser.parse_args().epochs

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    weights = torch.arange(8.0).unsqueeze(1) / 8

    for epoch in range(1, epochs + 1):
        inputs = torch.randn(256, 8)
        loss = torch.nn.functional.mse_loss(model(inputs), inputs @ weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}/{epochs} loss={loss.item():.4f} world_size={world}")
    # No rank leaves while another still talks to it.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
