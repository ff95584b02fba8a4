"""PyTorch's DistributedDataParallel on the digits, over gloo: every task runs this, and all of them train.

    MASTER_ADDR=... MASTER_PORT=... RANK=... WORLD_SIZE=... train.py --checkpoint FILE [--epochs N]

The variables are torchrun's: the cluster file sets them (ddp.toml), or torchrun does (torchrun.toml). Rank 0 writes FILE after
each epoch. Where a member is lost, the others fail and all start again: training goes on from FILE, which all of them see.
"""

import argparse
import os

import digits
import torch
import torch.distributed as dist

BATCH = 32  # of each task


def make_model():
    return torch.nn.Sequential(torch.nn.Linear(digits.PIXELS, 128), torch.nn.ReLU(), torch.nn.Linear(128, digits.CLASSES))


def tensors(samples):
    pixels, labels = samples
    return torch.from_numpy(pixels.copy()), torch.from_numpy(labels)


def batches(data, epoch):
    """This task's share of the samples, in an order that all tasks agree on."""
    pixels, labels = data
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
    order = order[:len(order) // dist.get_world_size() * dist.get_world_size()]
    for chosen in order[dist.get_rank()::dist.get_world_size()].split(BATCH):
        yield pixels[chosen], labels[chosen]


def load(checkpoint, model):
    """How many epochs are behind us."""
    if not os.path.exists(checkpoint):
        return 0
    state = torch.load(checkpoint)
    model.load_state_dict(state["model"])
    print(f"goes on after epoch {state['epochs']}", flush=True)
    return state["epochs"]


def save(checkpoint, model, epochs):
    torch.save({"model": model.state_dict(), "epochs": epochs}, f"{checkpoint}.new")
    os.replace(f"{checkpoint}.new", checkpoint)  # whole, or not there


def train(options):
    model = make_model()
    begin = load(options.checkpoint, model)
    dist.barrier()  # nobody writes before all have read
    replica = torch.nn.parallel.DistributedDataParallel(model)  # rank 0's values are everybody's from here on
    optimizer = torch.optim.SGD(replica.parameters(), 0.2)
    loss_of = torch.nn.CrossEntropyLoss()
    data = tensors(digits.training())
    for epoch in range(begin, options.epochs):
        for pixels, labels in batches(data, epoch):
            optimizer.zero_grad()
            loss = loss_of(replica(pixels), labels)
            loss.backward()  # the mean of all tasks' gradients
            optimizer.step()
        if dist.get_rank() == 0:
            save(options.checkpoint, model, epoch + 1)
            print(f"epoch {epoch + 1} ended, loss {loss.item():.4f}", flush=True)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--epochs", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}", flush=True)
    model = train(options)
    if dist.get_rank() == 0:
        pixels, labels = tensors(digits.test())
        accuracy = (model(pixels).argmax(1) == labels).float().mean().item()
        print(f"test accuracy {accuracy:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
