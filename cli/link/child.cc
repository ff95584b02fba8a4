#include "cli/link/child.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include "base/error.h"

namespace tfdist::cli {
namespace {

// Frees what posix_spawn's two parameter objects hold.
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

void ConnectStreams(SpawnParameters& parameters, const ChildStreams& streams) {
  posix_spawn_file_actions_adddup2(&parameters.actions, streams.in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&parameters.actions, streams.out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&parameters.actions, streams.err, STDERR_FILENO);
}

// A session of its own: Ctrl-C at our terminal is for us alone, and no helper asks there for a
// password.
void DetachFromTerminalAndSignals(SpawnParameters& parameters) {
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&parameters.attributes, &none);
  posix_spawnattr_setsigdefault(&parameters.attributes, &all);
  posix_spawnattr_setflags(&parameters.attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

std::vector<char*> Pointers(const std::vector<std::string>& argv) {
  std::vector<char*> pointers;
  pointers.reserve(argv.size() + 1);
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Child Child::Spawn(const std::vector<std::string>& argv, const ChildStreams& streams) {
  SpawnParameters parameters;
  ConnectStreams(parameters, streams);
  DetachFromTerminalAndSignals(parameters);
  pid_t pid = 0;
  const int error_number = posix_spawnp(&pid, argv[0].c_str(), &parameters.actions,
                                        &parameters.attributes, Pointers(argv).data(), environ);
  if (error_number != 0) {
    throw Error(Phase::kExec, WithErrno(fmt::format("cannot run {}", argv[0]), error_number));
  }
  return Child(pid);
}

Child::~Child() {
  if (pid_ == 0 || waitpid(pid_, nullptr, WNOHANG) != 0) return;
  try {
    // A thread, and no list of children to look after: nobody has to come back for it.
    std::thread([pid = pid_] { waitpid(pid, nullptr, 0); }).detach();
  } catch (const std::system_error&) {
    // Without a thread it stays a zombie until this process ends; no harm.
  }
}

void Child::Kill() {
  if (pid_ != 0) kill(-pid_, SIGKILL);
}

int Child::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return status;
}

}  // namespace tfdist::cli
