"""Adds the ranks of all processes up, and says where each of them runs."""

import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
# In one write: mpiexec mixes what the ranks write in pieces.
sys.stdout.write(f"rank {world.rank} of {world.size} on {MPI.Get_processor_name()}: the ranks add up to {total}\n")
