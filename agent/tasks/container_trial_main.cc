#include "agent/tasks/container_trial_main.h"

#include <cstdio>
#include <filesystem>
#include <optional>

#include "agent/process/run_records.h"
#include "agent/tasks/command_search.h"
#include "agent/tasks/environment.h"

namespace tfdist::agent {

int ContainerTrialMain(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) return 2;
  Environment environment = Environment::OfHost();  // of the image
  if (!arguments[0].empty()) environment.Set("PATH", arguments[0]);
  RunSpec spec;
  spec.argv.assign(arguments.begin() + 1, arguments.end());
  spec.env = environment.Strings();
  spec.cwd = std::filesystem::current_path();
  const std::optional<MissingProgram> missing = FindMissingProgram(spec);
  if (!missing) return 0;
  std::fputs((missing->program + '\n' + missing->why).c_str(), stdout);
  return kNoSuchCommand;
}

}  // namespace tfdist::agent
