"""A linear model of the digits on all devices of all processes: each process holds its share of the samples, and JAX adds
the gradients of all of them up. RANK and WORLD_SIZE say which process this is.

    train.py [--steps N]
"""

import argparse
import os

import digits
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

LEARNING_RATE = 0.5


def loss_of(weights, pixels, labels):
    logits = pixels @ weights[:-1] + weights[-1]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))


@jax.jit
def step(weights, pixels, labels):
    return weights - LEARNING_RATE * jax.grad(loss_of)(weights, pixels, labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    jax.distributed.initialize(num_processes=size, process_id=rank)
    print(f"process {jax.process_index()} of {jax.process_count()}: {jax.device_count()} devices in all", flush=True)

    mesh = Mesh(np.array(jax.devices()), ("data",))
    shares, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    pixels, labels = digits.training()
    even = len(labels) // jax.device_count() * jax.device_count()  # the devices hold equally many
    mine = slice(rank * even // size, (rank + 1) * even // size)
    pixels = jax.make_array_from_process_local_data(shares, pixels[mine])
    labels = jax.make_array_from_process_local_data(shares, labels[mine].astype(np.int32))
    weights = jax.device_put(np.zeros([digits.PIXELS + 1, digits.CLASSES], np.float32), whole)
    for _ in range(options.steps):
        weights = step(weights, pixels, labels)

    pixels, labels = digits.test()
    learned = np.asarray(weights)
    accuracy = np.mean((pixels @ learned[:-1] + learned[-1]).argmax(axis=1) == labels)
    print(f"test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
