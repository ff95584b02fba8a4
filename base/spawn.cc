#include "base/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <cassert>
#include <csignal>
#include <cstdlib>

namespace tfdist {
namespace {

// posix_spawn's two parameter objects, freed together.
struct SpawnParameters {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};

  SpawnParameters() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  SpawnParameters(const SpawnParameters&) = delete;
  SpawnParameters& operator=(const SpawnParameters&) = delete;
  ~SpawnParameters() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

void Connect(SpawnParameters& parameters, int from, int to) {
  if (from < 0) {
    posix_spawn_file_actions_addopen(&parameters.actions, to, "/dev/null", O_RDWR, 0);
  } else {
    posix_spawn_file_actions_adddup2(&parameters.actions, from, to);
  }
}

void Detach(SpawnParameters& parameters, SpawnPlace place) {
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&parameters.attributes, &none);
  posix_spawnattr_setsigdefault(&parameters.attributes, &all);
  posix_spawnattr_setpgroup(&parameters.attributes, 0);
  const int apart = place == SpawnPlace::kOwnSession ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
  posix_spawnattr_setflags(
      &parameters.attributes,
      static_cast<short>(apart | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
}

std::vector<char*> Pointers(const std::vector<std::string>& argv) {
  std::vector<char*> pointers;
  pointers.reserve(argv.size() + 1);
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

pid_t SpawnProgram(const std::vector<std::string>& argv, const SpawnStreams& streams,
                   SpawnPlace place, Phase phase,
                   const std::optional<std::vector<std::string>>& environment) {
  assert(!argv.empty());
  SpawnParameters parameters;
  Connect(parameters, streams.in, STDIN_FILENO);
  Connect(parameters, streams.out, STDOUT_FILENO);
  Connect(parameters, streams.err, STDERR_FILENO);
  Detach(parameters, place);
  pid_t pid = -1;
  std::vector<char*> own;
  if (environment) own = Pointers(*environment);
  const int error_number =
      posix_spawnp(&pid, argv[0].c_str(), &parameters.actions, &parameters.attributes,
                   Pointers(argv).data(), environment ? own.data() : environ);
  if (error_number != 0) {
    const char* const path = std::getenv("PATH");
    throw Error(phase, WithErrno(fmt::format("cannot run {}", argv[0]), error_number),
                fmt::format("install {}, or put its folder into PATH, which is {}", argv[0],
                            path == nullptr ? "not set" : path));
  }
  return pid;
}

}  // namespace tfdist
