// The removal of a job's folders from its hosts, and of {keep} with the last job of a name.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/deploy/deployment.h"
#include "cli/job/job_record.h"
#include "cli/link/house.h"
#include "cli/show/consent.h"

namespace tfdist::cli {

class PurgeOfJob {
 public:
  // Asks each host what lies in {keep}. `purged`: ids of all jobs that this command purges. Borrows both.
  PurgeOfJob(const JobRecord& record, const std::set<std::string>& purged);

  using Folder = std::pair<std::string, std::string>;  // a host's name, and a path there
  // Of {keep}, those that go with the job.
  [[nodiscard]] std::set<Folder> KeptToGo() const;
  // Returns where no host's {keep} would go, where that is empty, or where the user says y on the terminal. `meant`: as the job
  // was found. Throws UsageError else; nothing has been touched then.
  void AskForKept(const JobsMeant& meant) const;

  // False when something stayed; the record stays then as well. What {keep} has on a host that was not asked about stays.
  bool Run();

 private:
  struct Slot {
    bool kept_goes = false;
    std::optional<Error> unseen;  // why it is not known what {keep} has
    std::vector<KeptHere> kept;
    Removal removal;
  };

  void LookForKept(size_t slot);
  void RemoveSlot(size_t slot);
  void SayWhatWasRemoved(size_t slot, std::vector<Error>& errors) const;
  // Of each machine once.
  [[nodiscard]] std::vector<KeptOnHost> KeptWhere(bool goes) const;

  const JobRecord& record_;
  const std::set<std::string>& purged_;
  std::vector<Slot> slots_;
};

}  // namespace tfdist::cli
