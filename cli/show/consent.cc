#include "cli/show/consent.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

std::string WhyToAsk(const JobRecord& record, const JobsMeant& jobs) {
  const auto state = StateName(record.last_seen);
  const size_t all = jobs.running + jobs.finished;
  if (jobs.of_another_project)
    return fmt::format("{} ({}) was started from {}", record.id, state, ProjectOf(record));
  if (!jobs.named && jobs.running > 0) {
    return all == 1 ? fmt::format("no job was named, and {} runs", record.id)
                    : fmt::format("no job was named, and of {} one runs, {}", all, record.id);
  }
  if (!jobs.named) return fmt::format("no job runs, and the newest is {} ({})", record.id, state);
  return fmt::format("{} jobs are meant, of which {} ({}) comes first", all, record.id, state);
}

Consent ConsentToForget(Deed deed, const JobsMeant& jobs) {
  if (jobs.named && jobs.running > 0) return Consent::kRefused;
  if (jobs.by_id) return Consent::kGiven;
  if (deed == Deed::kForget) return Consent::kAsked;
  return jobs.named || jobs.finished == 1 ? Consent::kGiven : Consent::kOffered;
}

}  // namespace

Consent ConsentFor(Deed deed, const JobsMeant& jobs) {
  const bool is_one = jobs.running + jobs.finished == 1;
  if (deed == Deed::kClean) return Consent::kAsked;
  if (deed == Deed::kUseKept) return Consent::kRefused;  // a word of its own says it: --take-keep
  if (deed == Deed::kLook && !jobs.named) return Consent::kGiven;
  if (jobs.on_hosts && !jobs.named) return Consent::kRefused;
  if (deed == Deed::kForget || deed == Deed::kForgetLogs) return ConsentToForget(deed, jobs);
  if (jobs.running > 1) return Consent::kRefused;
  if (deed == Deed::kPurgeKept) return Consent::kAsked;
  if (deed == Deed::kReplace && !jobs.named) return Consent::kAsked;
  const bool changes_it = deed != Deed::kLook && (jobs.running > 0 || deed == Deed::kPurge);
  if (jobs.of_another_project && changes_it) return Consent::kAsked;
  if (deed != Deed::kPurge) return Consent::kGiven;
  return is_one && jobs.named ? Consent::kGiven : Consent::kAsked;
}

bool HasTerminal() { return isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0; }

bool IsConfirmed(const std::string& question) {
  Say("tfdist: {} [y/N] ", question);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

UsageError NothingWasRemoved(const std::string& why, const JobRecord& record, const JobsMeant& jobs,
                             const std::string& remedy) {
  return {Phase::kUsage,
          fmt::format("nothing was removed{}{}{}", why.empty() ? "" : ": ", why,
                      jobs.running > 0 ? fmt::format("; job {} runs on", record.id) : ""),
          remedy};
}

void AskBeforeAnotherProjects(const JobRecord& record) {
  const std::string what =
      fmt::format("job {} runs, which was started from {}", record.id, ProjectOf(record));
  if (HasTerminal() && IsConfirmed(what + ": go on?")) return;
  throw UsageError(Phase::kUsage, fmt::format("nothing was done: {}", what),
                   fmt::format("the same with {} or {} in the place of the file means that job",
                               record.id, record.name));
}

void AskBeforePurge(const JobRecord& record, const JobsMeant& jobs) {
  const std::string why = WhyToAsk(record, jobs);
  if (!HasTerminal()) {
    // That it runs stands behind this.
    const bool is_one = jobs.running + jobs.finished == 1;
    const std::string runs =
        is_one ? "no job was named"
               : fmt::format("no job was named, and {} are known", jobs.running + jobs.finished);
    throw NothingWasRemoved(
        !jobs.named && jobs.running > 0 ? runs : why, record, jobs,
        fmt::format("tfdist down --purge {} {}removes what its tasks have written; --yes does not "
                    "say which job is meant; tfdist list shows all jobs",
                    record.id, jobs.running > 0 ? "ends it, and " : ""));
  }
  if (IsConfirmed(fmt::format("{}: {}remove what its tasks have written?", why,
                              jobs.running > 0 ? "end it, and " : ""))) {
    return;
  }
  throw NothingWasRemoved("", record, jobs);
}

}  // namespace tfdist::cli
