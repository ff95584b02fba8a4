"""A trainer's step in PyTorch: values and a batch from pinned memory to the GPU, forward, backward, gradients back.

    torch_step.py MODEL BATCH SECONDS    prints {"step_ms": ..., "compute_ms": ..., "torch": "..."}

MODEL is "mlp" (784-3072-3072-10) or "cnn" (28x28, 5x5 convolutions of 32 and 64 filters with 2x2 pools, 1024, 10), as
cuda_bench has them; float32 without TF32. compute_ms is the same without copies of values and gradients.
"""

import json
import statistics
import sys
import time

import torch
from torch import nn

SIDE, CLASSES, WARM_UP = 28, 10, 10


def network(kind):
    if kind == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 3072), nn.ReLU(), nn.Linear(3072, 3072), nn.ReLU(),
                             nn.Linear(3072, CLASSES))
    return nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(7 * 7 * 64, 1024), nn.ReLU(), nn.Linear(1024, CLASSES))


def median_ms(seconds, step):
    for _ in range(WARM_UP):
        step()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def main(kind, batch, seconds):
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    model = network(kind).cuda()
    loss_of = nn.CrossEntropyLoss()
    pixels = torch.rand(batch, 1, SIDE, SIDE)  # a trainer's batch is not in pinned memory either
    labels = torch.arange(batch) % CLASSES
    parameters = list(model.parameters())
    values = [p.detach().cpu().pin_memory() for p in parameters]
    gradients = [torch.empty_like(value).pin_memory() for value in values]

    def compute():
        for parameter in parameters:
            parameter.grad = None
        loss = loss_of(model(pixels.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
        loss.backward()
        return loss

    def step():
        with torch.no_grad():
            for parameter, value in zip(parameters, values):
                parameter.copy_(value, non_blocking=True)
        loss = compute()
        for parameter, gradient in zip(parameters, gradients):
            gradient.copy_(parameter.grad, non_blocking=True)
        loss.item()

    print(json.dumps({"step_ms": median_ms(seconds, step), "compute_ms": median_ms(seconds, compute),
                      "torch": torch.__version__}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
