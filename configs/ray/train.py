"""The digits on a Ray cluster: an actor on each node holds a share of the samples and computes gradients, the driver takes
their mean. Run by the driver alone; RAY_ADDRESS names the head.

    RAY_ADDRESS=HOST:PORT train.py --nodes N [--steps N]
"""

import argparse
import time

import digits
import numpy as np
import ray

LEARNING_RATE = 0.5
SECONDS = 120  # for all nodes to join


def probabilities(weights, pixels):
    logits = pixels @ weights[:-1] + weights[-1]
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


@ray.remote(num_cpus=1)
class Trainer:
    def __init__(self, part, parts):
        pixels, labels = digits.training()
        self._pixels, self._labels = pixels[part::parts], labels[part::parts]

    def node(self):
        return ray.get_runtime_context().get_node_id()

    def gradient(self, weights):
        error = probabilities(weights, self._pixels)
        error[np.arange(len(self._labels)), self._labels] -= 1
        error /= len(self._labels)
        return np.concatenate([self._pixels.T @ error, error.sum(axis=0, keepdims=True)])


def wait_for_nodes(count):
    deadline = time.monotonic() + SECONDS
    while sum(node["Alive"] for node in ray.nodes()) < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"{count} nodes have not joined within {SECONDS} s: {ray.nodes()}")
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    ray.init()
    wait_for_nodes(options.nodes)
    # One CPU a node, one CPU an actor: each gets a node of its own.
    trainers = [Trainer.remote(part, options.nodes) for part in range(options.nodes)]
    nodes = set(ray.get([trainer.node.remote() for trainer in trainers]))
    print(f"trainers on {len(nodes)} nodes", flush=True)
    weights = np.zeros([digits.PIXELS + 1, digits.CLASSES], np.float32)
    for _ in range(options.steps):
        weights -= LEARNING_RATE * np.mean(ray.get([trainer.gradient.remote(weights) for trainer in trainers]), axis=0)
    pixels, labels = digits.test()
    accuracy = np.mean(probabilities(weights, pixels).argmax(axis=1) == labels)
    print(f"test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
