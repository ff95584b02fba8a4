// What the agent tells the role `set-up`, in a file of the run's folder, and how that says what went wrong.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/process/run_folder.h"
#include "agent/slot/run_folders.h"
#include "agent/slot/slot_folder.h"
#include "base/error.h"

namespace tfdist::agent {

struct SetUpOrder {
  std::string base;
  std::string key;
  std::string run;  // the folder that it is to make
  std::string job;
  std::string work;  // the work folder, where the inputs are
  std::vector<std::string> argv;
  std::string shown;  // the command for messages: what a variable of the host holds is not in it
  std::vector<std::string> inputs;
  int64_t timeout_ms = 0;
  bool again = false;
};

// Its run on this host, as tasks have theirs: `<slot folder>/tasks/set-up/run-1-1/`.
std::filesystem::path SetUpRunFolder(const SlotFolder& folder);

void WriteSetUpOrder(const std::filesystem::path& run_folder, const SetUpOrder& order);
SetUpOrder ReadSetUpOrder(const std::filesystem::path& run_folder);

// Beside the run's exit status, which says nothing of the cause.
void WriteSetUpFailure(const std::filesystem::path& run_folder, const Error& error);
std::optional<Error> ReadSetUpFailure(const std::filesystem::path& run_folder);

}  // namespace tfdist::agent
