"""One client, the chief, places variables and towers on plain servers with tf.device.

    TF_CONFIG=... train.py [--steps N]

ps and workers are servers that know nothing of the model, and never end; only the chief does.
"""

import argparse
import json
import os

import tensorflow as tf
import towers

tf1 = tf.compat.v1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    tf1.disable_eager_execution()
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, task = config["cluster"], config["task"]
    server = tf1.train.Server(cluster, task["type"], task["index"])
    if task["type"] != "chief":
        print("ready", flush=True)
        server.join()  # until it is ended
    workers = [f"/job:worker/task:{number}" for number in range(len(cluster["worker"]))]
    accuracy = towers.train(server.target, "/job:ps/task:0", workers, options.steps)
    print(f"test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
