// The command line that starts a task's container, word by word: no shell reads it, and no value of a variable that may be
// a secret stands in it.
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
  std::vector<std::string> words;  // what follows the image
};

struct ContainerCommand {
  std::vector<std::string> argv;  // of the engine's client
  std::vector<std::string>
      env;  // "NAME=value", which its environment must have; argv has their names only
};

// CUDA_VISIBLE_DEVICES in `env` becomes the devices of the container, which counts those from 0.
ContainerCommand CommandFor(const ContainerRun& run, const Engine& engine);

// Runs `program` instead of the image's entry point; it must need nothing of the image. The engine removes the container at
// its end.
ContainerCommand TrialFor(const ContainerRun& run, const Engine& engine,
                          const std::filesystem::path& program);

}  // namespace tfdist::agent
