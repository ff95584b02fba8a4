"""The digits on a Dask cluster: each worker holds a share of the samples and computes gradients, the driver takes their mean.
Run by the driver only; DASK_SCHEDULER_ADDRESS names the scheduler.

    DASK_SCHEDULER_ADDRESS=tcp://HOST:PORT train.py --workers N [--steps N]
"""

import argparse

import digits
import numpy as np
from dask.distributed import Client

LEARNING_RATE = 0.5
SECONDS = 120  # for all workers to join


def probabilities(weights, pixels):
    logits = pixels @ weights[:-1] + weights[-1]
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


def share(part, parts):
    pixels, labels = digits.training()
    return pixels[part::parts], labels[part::parts]


def gradient(samples, weights):
    pixels, labels = samples
    error = probabilities(weights, pixels)
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    return np.concatenate([pixels.T @ error, error.sum(axis=0, keepdims=True)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    with Client(timeout=SECONDS) as client:
        client.wait_for_workers(options.workers, timeout=SECONDS)
        workers = list(client.scheduler_info(n_workers=-1)["workers"])
        shares = [client.submit(share, part, len(workers), workers=[worker]) for part, worker in enumerate(workers)]
        print(f"shares on {len(set(workers))} workers", flush=True)
        weights = np.zeros([digits.PIXELS + 1, digits.CLASSES], np.float32)
        for _ in range(options.steps):
            gradients = [client.submit(gradient, samples, weights, workers=[worker], pure=False)
                         for samples, worker in zip(shares, workers)]
            weights -= LEARNING_RATE * np.mean(client.gather(gradients), axis=0)
    pixels, labels = digits.test()
    accuracy = np.mean(probabilities(weights, pixels).argmax(axis=1) == labels)
    print(f"test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
