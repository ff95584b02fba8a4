"""Distributed training on machines that you reach by SSH: the jobs of the command `tfdist`, from Python.

    with tfdist.up("cluster.toml", args=["--lr", "0.2"]) as job:
        for line in job.logs(follow=True):
            print(line["task"], line["line"])
        job.wait()
"""

from tfdist import types
from tfdist.errors import (Error, Fault, HostError, Incomplete, InternalError, Interrupted, JobFailed, NameTaken, NoSuchJob,
                           OutputError, ProgramNotFound, TimedOut, UsageError)
from tfdist.job import Job, jobs, up, up_async

__all__ = ["Error", "Fault", "HostError", "Incomplete", "InternalError", "Interrupted", "Job", "JobFailed", "NameTaken",
           "NoSuchJob", "OutputError", "ProgramNotFound", "TimedOut", "UsageError", "jobs", "types", "up", "up_async"]
