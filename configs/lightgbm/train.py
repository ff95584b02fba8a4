"""Trees of the digits, grown by several machines together: each holds its share of the samples.

    train.py --machines HOST:PORT,... --port PORT --rank N [--rounds N]
"""

import argparse

import digits
import lightgbm
import numpy as np


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--machines", required=True, help="all of them, this one too")
    parser.add_argument("--port", type=int, required=True, help="that this one listens on")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    count = options.machines.count(",") + 1
    pixels, labels = digits.training()
    share = lightgbm.Dataset(pixels[options.rank :: count], labels[options.rank :: count])
    model = lightgbm.train(
        {"objective": "multiclass", "num_class": digits.CLASSES, "tree_learner": "data", "pre_partition": True,
         "num_machines": count, "machines": options.machines, "local_listen_port": options.port, "verbose": -1},
        share, options.rounds)
    pixels, labels = digits.test()
    accuracy = np.mean(model.predict(pixels).argmax(axis=1) == labels)
    print(f"machine {options.rank} of {count}: {model.num_trees()} trees, test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
