// What the other hosts of a job say when its first one, which knows all, does not answer.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {

enum class Word {
  kWaits,   // its agent runs its tasks, and does not hear the coordinator
  kHears,   // its agent hears the coordinator: only this machine does not reach it
  kOver,    // the job is over there
  kSilent,  // its agent is there and does not answer, as one that was stopped
  kNothing  // the host cannot be asked
};

struct HostsWord {
  std::string host;
  Word word = Word::kNothing;
  std::string why;          // for people
  bool has_folder = false;  // of the job, as it says
  bool was_killed = false;  // all of the job there, as at a reboot
  bool misses_first =
      false;  // its agent does not hear the first host, or has ended its tasks for that
};

std::string_view NameOf(Word word);

// Asks the job's agents or folders in these slots, at once. `is_off`: as ssh::Target's, of each.
std::vector<HostsWord> AskHosts(const JobRecord& record, const std::vector<int>& slots,
                                const std::function<bool()>& is_off = {});
// In all slots but the first: the answer of slot i is element i - 1.
std::vector<HostsWord> AskOtherHosts(const JobRecord& record);

// "host gpu2: cannot be asked: ...", with `between` after the name; hosts with the same word are folded.
void PrintWords(const std::vector<HostsWord>& words, std::string_view between);

// Whether the first host seems to be off: some of the others do not hear it either, and none does.
bool AllMissFirst(const std::vector<HostsWord>& words);
// As a question (ssh::Target::is_off) for one who connects to slot 0; {} where there is nobody to ask. `record` is borrowed.
std::function<bool()> IsFirstOff(const JobRecord& record);
// `error` of a first host that does not answer, or has nothing of the job any more, as `words` of the others, who are asked else,
// say: is it off?
Error WhyFirstIsSilent(const JobRecord& record, const Error& error);
Error WhyFirstIsSilent(const JobRecord& record, const Error& error,
                       const std::vector<HostsWord>& words);
Error FolderOfFirstIsGone(const JobRecord& record);

}  // namespace tfdist::cli
