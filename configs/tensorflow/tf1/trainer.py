"""The classic between-graph trainer: tf.train.Server, replica_device_setter, MonitoredTrainingSession.

    trainer.py --ps_hosts A,B --worker_hosts C,D --job_name ps|worker --task_index N --checkpoint_dir DIR
               [--sync] [--steps N]

Worker 0 is chief: it alone writes checkpoints, and DIR is a folder that it and all ps see. Asynchronous, or with --sync
by SyncReplicasOptimizer. --steps count for all workers together (--sync: updates).
"""

import argparse

import digits
import tensorflow as tf

tf1 = tf.compat.v1
BATCH = 32
POLL_SECONDS = 1  # MonitoredTrainingSession's worker looks every 30 s whether the chief has initialized the model


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ps_hosts", type=lambda text: text.split(","), required=True)
    parser.add_argument("--worker_hosts", type=lambda text: text.split(","), required=True)
    parser.add_argument("--job_name", choices=["ps", "worker"], required=True)
    parser.add_argument("--task_index", type=int, default=0)
    parser.add_argument("--checkpoint_dir", required=True)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--steps", type=int, default=2000)
    return parser.parse_args()


class Model:
    """Layers on the servers, in round-robin order."""

    def __init__(self, options):
        self.step = tf1.train.get_or_create_global_step()
        self._layers = [
            (tf1.get_variable(f"kernel{number}", shape, initializer=tf1.initializers.glorot_uniform()),
             tf1.get_variable(f"bias{number}", shape[1:], initializer=tf1.initializers.zeros()))
            for number, shape in enumerate([(digits.PIXELS, 128), (128, digits.CLASSES)])]
        pixels, labels = digits.training()
        chosen = tf.random.uniform([BATCH], 0, len(labels), tf.int32, seed=options.task_index + 1)
        self.loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.gather(tf.constant(labels), chosen), logits=self._logits(tf.gather(tf.constant(pixels), chosen))))
        optimizer = tf1.train.GradientDescentOptimizer(0.1)
        if options.sync:
            workers = len(options.worker_hosts)
            optimizer = tf1.train.SyncReplicasOptimizer(optimizer, workers, workers)
        self.train = optimizer.minimize(self.loss, self.step)
        self.sync = optimizer if options.sync else None
        pixels, labels = digits.test()
        right = tf.equal(tf.argmax(self._logits(tf.constant(pixels)), 1), labels)
        self.accuracy = tf.reduce_mean(tf.cast(right, tf.float32))

    def _logits(self, values):
        (kernel0, bias0), (kernel1, bias1) = self._layers
        return tf.matmul(tf.nn.relu(tf.matmul(values, kernel0) + bias0), kernel1) + bias1


class WorkerSession(tf1.train.SessionCreator):
    """Waits for the chief as MonitoredTrainingSession's does, but looks more often."""

    def __init__(self, master, config):
        self._master, self._config = master, config
        self._scaffold = tf1.train.Scaffold()

    def create_session(self):
        scaffold = self._scaffold.finalize()
        manager = tf1.train.SessionManager(
            local_init_op=scaffold.local_init_op, ready_op=scaffold.ready_op,
            ready_for_local_init_op=scaffold.ready_for_local_init_op, graph=tf1.get_default_graph(),
            recovery_wait_secs=POLL_SECONDS)
        return manager.wait_for_session(self._master, config=self._config, max_wait_secs=600)


def open_session(options, server, config, hooks):
    if options.task_index > 0:
        return tf1.train.MonitoredSession(WorkerSession(server.target, config), hooks)
    return tf1.train.MonitoredTrainingSession(
        server.target, is_chief=True, checkpoint_dir=options.checkpoint_dir, hooks=hooks, config=config,
        save_checkpoint_steps=100, save_checkpoint_secs=None, save_summaries_steps=None, save_summaries_secs=None,
        log_step_count_steps=None,
        stop_grace_period_secs=5)  # the queue thread of SyncReplicas never ends by itself


def train(options, server, config):
    model_device = tf1.train.replica_device_setter(
        worker_device=f"/job:worker/task:{options.task_index}",
        cluster={"ps": options.ps_hosts, "worker": options.worker_hosts})
    with tf1.device(model_device):
        model = Model(options)
    hooks = [tf1.train.StopAtStepHook(last_step=options.steps)]
    if options.sync:
        hooks.append(model.sync.make_session_run_hook(options.task_index == 0))
    own, step, accuracy = 0, 0, 0.0
    with open_session(options, server, config, hooks) as session:
        while not session.should_stop():
            # The accuracy is fetched with the step: a second call could come after the session's end.
            want_accuracy = own % 100 == 0 or step >= options.steps - len(options.worker_hosts) - 1
            fetched = session.run([model.train, model.step] + ([model.accuracy] if want_accuracy else []))
            own, step = own + 1, int(fetched[1])
            if want_accuracy:
                accuracy = float(fetched[2])
            if own % 100 == 1:
                print(f"step {step}, test accuracy {accuracy:.4f}", flush=True)
    print(f"final: step {step}, {own} of them here, test accuracy {accuracy:.4f}", flush=True)


def main():
    options = read_options()
    tf1.disable_eager_execution()
    own_device = f"/job:{options.job_name}/task:{options.task_index}"
    # Without filters a session waits for every task of the cluster, also for one that has ended.
    config = tf1.ConfigProto(device_filters=None if options.job_name == "ps" else ["/job:ps", own_device])
    server = tf1.train.Server({"ps": options.ps_hosts, "worker": options.worker_hosts}, options.job_name,
                              options.task_index, config=config)
    if options.job_name == "ps":
        print("ready", flush=True)
        server.join()  # until it is ended
    train(options, server, config)


if __name__ == "__main__":
    main()
