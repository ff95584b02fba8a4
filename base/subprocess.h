// A short helper program, run to its end within a deadline: ssh -G, ssh-keygen, tar. No shell.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tfdist {

struct ProgramResult {
  int exit_code = -1;  // -1: ended by `signal`
  int signal = 0;
  bool timed_out = false;  // was killed at the deadline
  bool too_long = false;   // was killed as its stdout came to more than `stdout_limit_bytes`
  std::string output;      // stdout, unless it went to `stdout_fd`
  std::string error_output;
};

struct ProgramOptions {
  std::vector<std::string> argv;  // argv[0] is looked up in this process's PATH
  std::optional<std::vector<std::string>> environment = std::nullopt;  // else this process's own
  int stdin_fd = -1;                    // borrowed, read from its beginning; -1: /dev/null
  int stdout_fd = -1;                   // borrowed; -1: collected into `output`
  uint64_t stdout_limit_bytes = 0;      // of what goes to `stdout_fd`
  size_t output_limit_bytes = 1 << 20;  // of each of the two texts; what is beyond is dropped
};

// Runs the program with default signals. Throws Error(kInternal) when it
// cannot be started at all (not installed), naming it.
ProgramResult RunProgram(const ProgramOptions& options, TimePoint deadline);

}  // namespace tfdist
