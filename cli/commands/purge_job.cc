#include "cli/commands/purge_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/connector.h"
#include "cli/show/kept_text.h"
#include "cli/show/report.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookLimit = 20s;
constexpr auto kPurgeLimit = 30s;

bool StaysBehind(const KeptHere& kept, const std::set<std::string>& purged) {
  return std::ranges::all_of(kept.jobs,
                             [&](const std::string& job) { return purged.contains(job); });
}

}  // namespace

PurgeOfJob::PurgeOfJob(const JobRecord& record, const std::set<std::string>& purged)
    : record_(record), purged_(purged), slots_(record.hosts.size()) {
  auto failures = ForEachHost(slots_.size(), [this](size_t slot) { LookForKept(slot); });
  if (!record.keeps) return;
  for (size_t slot = 0; slot < slots_.size(); ++slot) slots_[slot].unseen = failures[slot];
}

void PurgeOfJob::LookForKept(size_t slot) {
  const int number = static_cast<int>(slot);
  const auto transport = TransportToJob(record_, number);
  const std::string base = BaseOf(record_, number);
  Slot& found = slots_[slot];
  found.kept = FindKept({*transport, GetEmbeddedAgents(), base, kLookLimit}, record_.id, number,
                        record_.name);
  // What an ending task writes into a folder that is empty now, nobody was asked about.
  found.kept_goes = record_.keeps && !found.kept.empty() &&
                    std::ranges::all_of(found.kept, [&](const KeptHere& kept) {
                      return StaysBehind(kept, purged_);
                    });
}

std::vector<KeptOnHost> PurgeOfJob::KeptWhere(bool goes) const {
  std::vector<KeptOnHost> there;
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].kept_goes != goes) continue;
    const std::string& host = record_.hosts[slot].name;
    const bool is_known = std::ranges::find(there, host, &KeptOnHost::host) != there.end();
    for (const KeptHere& kept : slots_[slot].kept) {
      if (!is_known) there.push_back({host, kept.files});
    }
  }
  return there;
}

std::set<PurgeOfJob::Folder> PurgeOfJob::KeptToGo() const {
  std::set<Folder> folders;
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].kept_goes) continue;
    for (const KeptHere& kept : slots_[slot].kept) {
      folders.emplace(record_.hosts[slot].name, kept.folder);
    }
  }
  return folders;
}

void PurgeOfJob::AskForKept(const JobsMeant& meant) const {
  const std::string kept = KeptText(KeptWhere(true));
  if (kept.empty() || ConsentFor(Deed::kPurgeKept, meant) == Consent::kGiven) return;
  const std::string why =
      fmt::format("job {} is the last one called {} there, so that this goes with it: {}",
                  record_.id, record_.name, kept);
  if (!HasTerminal()) {
    throw NothingWasRemoved(
        why, record_, meant,
        fmt::format("tfdist pull {0} brings the files home, tfdist down --purge --yes {0} removes "
                    "them",
                    record_.id));
  }
  if (!IsConfirmed(why + ": remove it?")) throw NothingWasRemoved("", record_, meant);
}

bool PurgeOfJob::Run() {
  const std::string stays = KeptText(KeptWhere(false));
  const auto failures = ForEachHost(slots_.size(), [this](size_t slot) { RemoveSlot(slot); });
  bool all_removed = true;
  std::vector<Error> errors;
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!failures[slot]) SayWhatWasRemoved(slot, errors);
    const std::string& host = record_.hosts[slot].name;
    if (failures[slot]) errors.push_back(WithHost(*failures[slot], host));
    if (const auto& unseen = slots_[slot].unseen) {
      errors.push_back(Error(Phase::kDown,
                             "kept {keep}: it could not be looked at: " + unseen->cause(),
                             fmt::format("tfdist down --purge {} again", record_.id))
                           .WithHost(host));
    }
    all_removed =
        all_removed && slots_[slot].removal.kept.empty() && !failures[slot] && !slots_[slot].unseen;
  }
  PrintErrors(errors);
  if (!stays.empty()) {
    Say("tfdist: {}: this stays for the next job called {}\n", stays, record_.name);
    Say("  it lies in {}/keep/{} there; tfdist clean lists it where no job of the name is left\n",
        BaseOf(record_, 0), record_.name);
  }
  if (all_removed) RemoveRecord(record_.id);
  return all_removed;
}

// The agent serves its last follower for a moment after the end, so a folder in which something runs
// is asked for again.
void PurgeOfJob::RemoveSlot(size_t slot) {
  const TimePoint deadline = SystemClock().Now() + kPurgeLimit;
  const int number = static_cast<int>(slot);
  const auto transport = TransportToJob(record_, number);
  const std::string base = BaseOf(record_, number);
  Removal& removal = slots_[slot].removal;
  while (true) {
    removal =
        PurgeJob({*transport, GetEmbeddedAgents(), base, kPurgeLimit, KnownBaseOf(record_, number)},
                 record_.id, number, slots_[slot].kept_goes);
    const bool may_pass = std::ranges::any_of(removal.kept, &protocol::KeptPath::runs);
    if (!may_pass || SystemClock().Now() + 15s > deadline) return;
    std::this_thread::sleep_for(200ms);
  }
}

void PurgeOfJob::SayWhatWasRemoved(size_t slot, std::vector<Error>& errors) const {
  const std::string& host = record_.hosts[slot].name;
  const Removal& removal = slots_[slot].removal;
  if (removal.removed.empty() && removal.kept.empty())
    Say("tfdist: {}: nothing of job {} was there any more\n", host, record_.id);
  for (const std::string& path : removal.removed) Say("tfdist: {}: removed {}\n", host, path);
  for (const protocol::KeptPath& kept : removal.kept)
    errors.push_back(NotRemoved(Phase::kDown, kept).WithHost(host));
}

}  // namespace tfdist::cli
