"""Training on the digits data, beside TensorFlow's own parameter servers in the same run.

    training.py [OPTION...]    --help lists the options

The same model, batch, learning rate (plain SGD) and number of tasks on both sides, all on 127.0.0.1, a core for the
arithmetic of each task. Repetitions take turns, ours and then TensorFlow's; a ratio is that of one repetition.

Steps per second are those of all workers together (asynchronous), or updates of the servers (synchronous). They are
counted when all is warm: TensorFlow's from a fifth of a case's steps to their end, while all workers train; ours from
the chief's first evaluation, after as many steps, to the first one at least --seconds later. So our time holds the
evaluations in between, TensorFlow's none. Accuracies are those of the test data after a case's steps, the lowest of
all repetitions. CPU is that of all tasks, servers included, while steps are counted: it tells more than the rates on a
machine that has other work to do.

Beside them, as many processes that train without servers, each its own model (alone_bench): where the arithmetic is
the limit (the large model, batch 32) that is all there is to gain, and 0.8 of it is enough.

Exit status: 0 also where a goal is missed; 1 if a run failed or there is no TensorFlow, 130 after Ctrl-C.
"""

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import secrets
import statistics
import sys
import tempfile

from tests.bench.local_tasks import Failed, LocalJob
from tests.bench.starts import Interrupted, StopRequest
from tests.support import environments
from tests.support.tfdist import BIN, ROOT

DATA = ROOT / "configs/data/digits"
TENSORFLOW_TASK = pathlib.Path(__file__).with_name("tensorflow_task.py")
SERVERS = 2
ENOUGH_ACCURACY = 0.95
NEVER = 10**9  # steps: ours are ended when they have been counted
EVALUATION = re.compile(r"step (\d+), test accuracy ([0-9.]+)")

Sample = collections.namedtuple("Sample", "rate cpu accuracy")  # cpu: seconds of all tasks a step


@dataclasses.dataclass(frozen=True)
class Case:
    hidden: str
    batch: int
    update: str
    steps: int  # of TensorFlow, and of ours before they count
    goal: float  # times TensorFlow's rate
    goal_alone: float | None = None  # or, where that is less, times that of processes without servers
    learning_rate: float = 0.1
    workers: int = 2

    def __str__(self):
        return f"64-{self.hidden.replace(',', '-')}-10, batch {self.batch}, {self.update}"

    def common_options(self):
        return ["--data", DATA, "--hidden", self.hidden, "--batch", self.batch, "--learning-rate",
                self.learning_rate]


CASES = {
    "small-async": Case("128", 32, "async", 4000, 8),
    "small-sync": Case("128", 32, "sync", 2000, 10),
    "large-32": Case("3072,3072", 32, "async", 400, 1.3, goal_alone=0.8),
    "large-2": Case("3072,3072", 2, "async", 4000, 2, learning_rate=0.03),
}
WORKERS = "workers"  # ours alone: the part that varies their number
WORKER_CASES = ("small-async", "small-sync", "large-32")
WORKER_COUNTS = (1, 2, 4)


# --- ours ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def secret_file():
    with tempfile.NamedTemporaryFile("w", prefix="tfdist-training-") as file:  # mode 0600
        file.write(secrets.token_hex(32) + "\n")
        file.flush()
        yield file.name


def measure_ours(case, seconds, stop):
    command = [BIN / "tfdist-runtime", *case.common_options(), "--update", case.update, "--steps", NEVER,
               "--eval-every", case.steps]
    with secret_file() as secret:
        environment = dict(os.environ, TFDIST_SECRET_FILE=secret, TFDIST_ATTEMPT="1", OPENBLAS_NUM_THREADS="1")
        with LocalJob(stop, (SERVERS, case.workers), command, environment) as job:
            return sample_of(evaluations(job), seconds)


Evaluation = collections.namedtuple("Evaluation", "time cpu step accuracy")


def evaluations(job):
    """Those that the chief tells; does not end."""
    for now, _, line in job.lines():
        if match := EVALUATION.match(line):
            yield Evaluation(now, job.cpu_seconds(), int(match[1]), float(match[2]))


def sample_of(told, seconds):
    first = next(told)
    last = next(one for one in told if one.time - first.time >= seconds)
    steps = last.step - first.step
    return Sample(steps / (last.time - first.time), (last.cpu - first.cpu) / steps, first.accuracy)


# --- without servers ------------------------------------------------------------------------------


def rate_alone(case, seconds, stop):
    """Steps per second of all workers together."""
    command = [BIN / "alone_bench", *case.common_options(), "--processes", case.workers, "--seconds", seconds]
    with LocalJob(stop, (0, 1), command, os.environ) as job:
        return float(next(line for _, _, line in job.lines()).split()[0])


# --- TensorFlow's --------------------------------------------------------------------------------


def measure_tensorflow(case, python, stop):
    command = [python, TENSORFLOW_TASK, *case.common_options(), "--steps", case.steps]
    if case.update == "sync":
        command.append("--sync")
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="", PYTHONWARNINGS="ignore")
    with LocalJob(stop, (SERVERS, case.workers), command, environment) as job:
        said = (json.loads(line) for _, _, line in job.lines())
        for _ in job.trainers():
            assert next(said) == {"ready": True}
        for trainer in job.trainers():
            trainer.tell("go")
        return (sample_of_updates if case.update == "sync" else sample_of_workers)(job, said)


def sample_of_updates(job, said):
    """From what the chief says; the others train on."""
    assert next(said) == {"warm": True}
    before = job.cpu_seconds()
    counted = next(said)
    cpu = job.cpu_seconds() - before
    return Sample(counted["updates"] / counted["seconds"], cpu / counted["updates"], next(said)["accuracy"])


def sample_of_workers(job, said):
    for _ in job.trainers():
        if next(said) != {"warm": True}:
            raise Failed("TensorFlow's workers did not train at the same time: there are too few steps")
    before = job.cpu_seconds()
    all_ends, accuracy, cpu = [], None, None
    while len(all_ends) < len(job.trainers()) or accuracy is None:
        words = next(said)
        cpu = cpu or job.cpu_seconds() - before  # until the first has ended
        accuracy = words.get("accuracy", accuracy)
        all_ends += [words["ends"]] if "ends" in words else []
    steps, seconds = counted_together(all_ends)
    return Sample(steps / seconds, cpu / steps, accuracy)


def counted_together(all_ends):
    """(steps, seconds) while all workers train, from the times when each one's steps ended; the first time is that
    when it began to count."""
    began, ended = max(ends[0] for ends in all_ends), min(ends[-1] for ends in all_ends)
    return sum(began < end <= ended for ends in all_ends for end in ends), ended - began


# --- tables --------------------------------------------------------------------------------------


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def rates(samples):
    return spread_of_rates([sample.rate for sample in samples])


def spread_of_rates(values):
    return spread(values, 0 if statistics.median(values) >= 100 else 1)


def print_head():
    print(f"\n{'beside TensorFlow':<35}{'tfdist steps/s':<20}{'TensorFlow steps/s':<20}{'ratio':<20}{'goal':<18}"
          f"{'without servers':<20}{'ratio':<18}{'CPU ms a step':<16}accuracy", flush=True)


def row(case, ours, tensorflow, alone):
    ratios = [mine.rate / other.rate for mine, other in zip(ours, tensorflow)]
    to_alone = [mine.rate / rate for mine, rate in zip(ours, alone)]
    cpu = ", ".join(f"{1000 * statistics.median(sample.cpu for sample in both):.3g}" for both in (ours, tensorflow))
    lowest = [min(sample.accuracy for sample in both) for both in (ours, tensorflow)]
    enough = "" if min(lowest) >= ENOUGH_ACCURACY else f", below {ENOUGH_ACCURACY}"
    return (f"{case!s:<35}{rates(ours):<20}{rates(tensorflow):<20}{spread(ratios, 2):<20}"
            f"{told_goal(case, ratios, to_alone):<18}{spread_of_rates(alone):<20}{spread(to_alone, 2):<18}{cpu:<16}"
            f"{lowest[0]:.3f}, {lowest[1]:.3f}{enough}")


def told_goal(case, ratios, to_alone):
    reached = statistics.median(ratios) >= case.goal
    if not reached and case.goal_alone and statistics.median(to_alone) >= case.goal_alone:
        return f"{case.goal_alone:g} alone reached"
    return f"{case.goal:g} {'reached' if reached else 'missed'}"


def compare(cases, options, python, stop):
    print_head()
    for case in cases:
        ours, tensorflow, alone = [], [], []
        for number in range(1, options.repetitions + 1):
            ours.append(measure_ours(case, options.seconds, stop))
            tensorflow.append(measure_tensorflow(case, python, stop))
            alone.append(rate_alone(case, options.seconds, stop))
            print(f"{case}, {number} of {options.repetitions}: {ours[-1].rate:.1f}, {tensorflow[-1].rate:.1f}, "
                  f"{alone[-1]:.1f} steps/s", file=sys.stderr, flush=True)
        print(row(case, ours, tensorflow, alone), flush=True)


def vary_workers(options, stop):
    counts = "".join(f"{f'{count} workers':<22}" for count in WORKER_COUNTS).rstrip()
    print(f"\n{'tfdist steps/s':<35}{counts}", flush=True)
    for case in (CASES[name] for name in WORKER_CASES):
        samples = {count: [] for count in WORKER_COUNTS}
        for _ in range(options.repetitions):
            for count in WORKER_COUNTS:
                varied = dataclasses.replace(case, workers=count, steps=case.steps // 4)  # enough to be warm
                samples[count].append(measure_ours(varied, options.seconds, stop))
        print(f"{case!s:<35}" + "".join(f"{rates(samples[count]):<22}" for count in WORKER_COUNTS).rstrip(), flush=True)


# --- the command ---------------------------------------------------------------------------------


def positive(kind):
    def convert(text):
        if kind(text) <= 0:
            raise ValueError
        return kind(text)

    convert.__name__ = f"positive {kind.__name__}"  # argparse's word for it
    return convert


def read_options():
    parser = argparse.ArgumentParser(prog="scripts/bench training", description="Training beside TensorFlow's "
                                     "parameter servers: about a quarter of an hour on two idle cores.")
    parser.add_argument("--repetitions", metavar="N", type=positive(int), default=3, help="default 3")
    parser.add_argument("--seconds", metavar="S", type=positive(float), default=5,
                        help="that ours are counted for, at least; default 5")
    parser.add_argument("--parts", metavar="PART", nargs="+", choices=[*CASES, WORKERS], default=[*CASES, WORKERS],
                        help=f"of {', '.join([*CASES, WORKERS])}; all by default")
    parser.add_argument("--python", metavar="PROGRAM", default=environments.PYTHON,
                        help="for TensorFlow: 2.15.1 with Python 3.11 and older, else 2.21.0; default: %(default)s")
    return parser.parse_args()


def print_title(options, tensorflow):
    print(f"{SERVERS} servers, 2 workers (where nothing else is said) on this machine: {os.cpu_count()} cores, load "
          f"{os.getloadavg()[0]:.1f}; {BIN / 'tfdist-runtime'}{tensorflow and ', ' + tensorflow}; medians of "
          f"{options.repetitions} (smallest-largest)", flush=True)


def measure(options):
    cases = [case for name, case in CASES.items() if name in options.parts]
    python, tensorflow = environments.TENSORFLOW.provide(options.python) if cases else (None, "")
    print_title(options, tensorflow)
    with StopRequest() as stop:
        if cases:
            compare(cases, options, python, stop)
        if WORKERS in options.parts:
            vary_workers(options, stop)


def main():
    try:
        measure(read_options())
    except (Interrupted, KeyboardInterrupt):
        return 130
    except environments.NoEnvironment as error:
        print(f"bench: {error}\n  try: {error.remedy}", file=sys.stderr)
        return 1
    except Failed as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
