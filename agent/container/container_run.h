// The command line that starts a task's container, word by word: no shell reads it, and no value of a variable stands in it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "agent/container/engine.h"
#include "job/container.h"

namespace tfdist::agent {

// A path of the host, at the same path in the container.
struct SeenPath {
  std::filesystem::path path;
  bool read_only = false;
};

struct ContainerRun {
  std::string name;  // ContainerName (containers.h)
  std::string job;   // its id
  int slot = 0;
  std::string task;
  protocol::ContainerDescription container;
  std::vector<SeenPath> seen;  // beside the mounts of `container`
  std::string cwd;
  std::vector<std::string> env;    // "NAME=value": what the job sets
  std::filesystem::path env_file;  // where the text of EnvOfContainer will be
  std::filesystem::path id_file;   // ContainerIdFile (container_processes.h)
  std::vector<std::string> words;  // what follows the image
};

// How the values of variables reach the task. The engine's client itself heeds many names (DOCKER_HOST, PATH, LD_PRELOAD,
// GODEBUG): its own environment is the host's.
struct ContainerEnv {
  std::string file;  // for `--env-file`: "NAME=value" lines
  // "NAME=value" of what such a file cannot hold: a value of several lines, say. The client's environment must have them.
  std::vector<std::string> of_client;
};
// Throws Error(kCommand) where the file cannot hold a value, and the client would heed its name.
ContainerEnv EnvOfContainer(const ContainerRun& run);

// Whether the container is to have GPUs of NVIDIA's.
bool GetsGpus(const std::vector<std::string>& env);

// The argv of the engine's client. CUDA_VISIBLE_DEVICES in `env` becomes the devices of the container, which counts those
// from 0.
std::vector<std::string> CommandFor(const ContainerRun& run, const Engine& engine);

// Runs `program` instead of the image's entry point, without `env`; it must need nothing of the image. The engine removes
// the container at its end.
std::vector<std::string> TrialFor(const ContainerRun& run, const Engine& engine,
                                  const std::filesystem::path& program);

}  // namespace tfdist::agent
