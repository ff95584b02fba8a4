"""Two tasks of a job called `local`, as in TensorFlow's first example of a cluster: each is a server, and the first one
is the client, too.

    train.py --local_hosts A,B --task_index N [--steps N]
"""

import argparse

import tensorflow as tf
import towers

tf1 = tf.compat.v1


def device(number):
    return f"/job:local/task:{number}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_hosts", type=lambda text: text.split(","), required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    tf1.disable_eager_execution()
    server = tf1.train.Server({"local": options.local_hosts}, "local", options.task_index)
    others = range(1, len(options.local_hosts))
    if options.task_index > 0:
        done = towers.done_queue(device(options.task_index)).dequeue()
        with tf1.Session(server.target) as session:
            session.run(done)
        return
    accuracy = towers.train(server.target, device(0), [device(number) for number in range(len(options.local_hosts))],
                            options.steps)
    print(f"test accuracy {accuracy:.4f}", flush=True)
    tell_done = [towers.done_queue(device(number)).enqueue(0) for number in others]
    with tf1.Session(server.target) as session:
        session.run(tell_done)


if __name__ == "__main__":
    main()
