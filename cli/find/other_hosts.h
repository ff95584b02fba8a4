// What the other hosts of a job say when its first one, which knows all, does not answer.
#pragma once

#include <string>
#include <vector>

#include "cli/job/job_record.h"

namespace tfdist::cli {

enum class Word {
  kWaits,   // its agent runs its tasks, and does not hear the coordinator
  kHears,   // its agent hears the coordinator: only this machine does not reach it
  kOver,    // the job is over there
  kNothing  // the host cannot be asked
};

struct HostsWord {
  std::string host;
  Word word = Word::kNothing;
  std::string why;  // for people
};

std::string_view NameOf(Word word);

// Asks the job's agents or folders in these slots, at once.
std::vector<HostsWord> AskHosts(const JobRecord& record, const std::vector<int>& slots);
// In all slots but the first: the answer of slot i is element i - 1.
std::vector<HostsWord> AskOtherHosts(const JobRecord& record);

}  // namespace tfdist::cli
