#include "cli/job/go_on.h"

#include <fmt/format.h>

#include <algorithm>

namespace tfdist::cli {

std::string CommandToStartAgain(const JobRecord& record, int slot) {
  const bool has_tasks =
      std::ranges::find(record.tasks, slot, &JobRecord::Task::slot) != record.tasks.end();
  return fmt::format("tfdist restart {}{}", record.id,
                     has_tasks ? " @" + record.hosts.at(static_cast<size_t>(slot)).name : "");
}

std::string CommandToEndTheRest(const JobRecord& record) {
  return fmt::format("tfdist down {} again ends what is left", record.id);
}

std::string WhatGoesOnWith(const JobRecord& record, const std::string& killed) {
  if (const std::string why = WhyToldToEnd(record); !why.empty()) {
    return fmt::format("it was told to end ({}); {}", why, CommandToEndTheRest(record));
  }
  std::string down = fmt::format("tfdist down {} ends what is left", record.id);
  // The nodes of an allocation that has ended are others' by now.
  if (killed.empty() || !record.hosts.at(0).slurm_job.empty()) return down;
  return fmt::format("{} starts it again; {}", CommandToStartAgain(record, 0), down);
}

}  // namespace tfdist::cli
