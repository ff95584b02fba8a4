#include "cli/link/house.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/failures.h"
#include "cli/link/agent_start.h"
#include "cli/link/bootstrap.h"
#include "wire/protocol.h"

namespace tfdist::cli {
namespace {

namespace type = protocol::type;

StartedAgent Bring(const House& house, const FoldersAsked& asked) {
  return BringHouse(house.transport, house.agents, asked,
                    {.shell = house.limit, .boot = house.limit, .hello = house.limit});
}

bool CannotServe(const Error& error) {
  return error.phase() == Phase::kUpload || error.phase() == Phase::kStart;
}

std::optional<StartedAgent> TryAside(const House& house, FoldersAsked asked) {
  asked.aside = true;
  try {
    return Bring(house, asked);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Where tfdist's own folder is full, or runs no programs, another place may do.
StartedAgent BringSomewhere(const House& house, const FoldersAsked& asked) {
  try {
    return Bring(house, asked);
  } catch (const LostConnection&) {
    throw;
  } catch (const Error& error) {
    if (!CannotServe(error)) throw;
    if (auto aside = TryAside(house, asked)) return std::move(*aside);
    throw;
  }
}

TimePoint AnswerBy(const House& house) { return SystemClock().Now() + house.limit; }

std::vector<protocol::Bytes> InBytes(const std::vector<std::string>& folders) {
  std::vector<protocol::Bytes> bytes;
  for (const std::string& folder : folders) bytes.push_back({folder});
  return bytes;
}

// What a host says of a slot counts where it can be one.
bool IsSlot(const protocol::ListedSlot& slot, const HostFolders& folders) {
  return slot.base < folders.bases.size() && slot.slot >= 0 &&
         layout::IsPlainName(slot.job, layout::kMostJobBytes);
}

std::string KeptFolder(const std::string& base, const std::string& name) {
  return base + "/keep/" + name;
}

// The same of a name.
bool IsKept(const protocol::KeptOfName& kept, const HostFolders& folders) {
  return kept.base < folders.bases.size() &&
         layout::IsPlainName(kept.name, layout::kMostJobBytes) &&
         (kept.files.files > 0 || !kept.files.all);
}

// Ids end in "-TIME-HEX": for any names, later ones come first.
std::string_view TimeOf(const SlotOnHost& slot) {
  const std::string_view id = slot.job.job;
  const size_t hex = id.rfind('-');
  if (hex == std::string_view::npos || hex == 0) return {};
  const size_t time = id.rfind('-', hex - 1);
  return time == std::string_view::npos ? std::string_view() : id.substr(time + 1, hex - time - 1);
}

HostSurvey Look(const House& house, bool closely, const std::string& tasks_of = {}) {
  StartedAgent agent = BringSomewhere(house, {.remote_dir = house.remote_dir});
  HostFolders& folders = agent.folders;
  HostSurvey survey;
  if (agent.link) {
    auto list = agent.link->Ask<protocol::SlotList>(
        type::kListSlots, protocol::ListSlots{InBytes(folders.bases), closely, "", tasks_of},
        AnswerBy(house));
    survey.caches_kib = list.caches_kib;
    survey.task_file_in_caches = list.task_file_in_caches.value;
    for (protocol::ListedSlot& slot : list.slots) {
      if (!IsSlot(slot, folders)) continue;
      survey.slots.push_back({{folders.bases[slot.base], slot.job, slot.slot, slot.running,
                               std::move(slot.started_by), std::move(slot.tasks),
                               std::move(slot.common), folders.ids.at(folders.bases[slot.base])},
                              slot.size_kib,
                              slot.has_task_files,
                              slot.out_of_time,
                              slot.leased});
    }
    for (const protocol::KeptOfName& kept : list.kept_names) {
      if (IsKept(kept, folders))
        survey.kept.push_back(
            {kept.name, KeptFolder(folders.bases[kept.base], kept.name), kept.files});
    }
  }
  std::ranges::stable_sort(
      survey.slots, [](const SlotOnHost& a, const SlotOnHost& b) { return TimeOf(a) > TimeOf(b); });
  survey.folders = std::move(folders);
  return survey;
}

// A job's record is the way to what lies there.
void ThrowIfOutOfSight(const HostFolders& folders, const FoldersAsked& asked) {
  const bool sees_none = folders.bases.empty() && folders.lacking.empty() && folders.gone.empty();
  if (!folders.refused.empty() || (IsInSight(folders, asked.known) && !sees_none)) return;
  throw OutOfSight(
      Phase::kDown, asked.known.path,
      fmt::format("tfdist down --purge {0} again once it can be seen; tfdist prune {0} "
                  "forgets the job",
                  asked.job));
}

Removal Remove(const House& house, const FoldersAsked& asked, protocol::RemoveSlots request) {
  StartedAgent agent = BringSomewhere(house, asked);
  if (!asked.job.empty()) ThrowIfOutOfSight(agent.folders, asked);
  Removal removal;
  if (agent.link) {
    request.bases = InBytes(agent.folders.bases);
    removal = agent.link->Ask<Removal>(type::kRemoveSlots, request, AnswerBy(house));
  }
  for (const std::string& refused : agent.folders.refused) {
    removal.kept.push_back(
        {.why = refused, .remedy = RefusedFolders(Phase::kFiles, {refused}).remedy()});
  }
  return removal;
}

}  // namespace

std::vector<RemoteJob> FindJobs(const House& house, std::string_view name,
                                const std::string& tasks_of) {
  const HostSurvey survey = Look(house, false, tasks_of);
  std::vector<RemoteJob> jobs;
  for (const SlotOnHost& slot : survey.slots) {
    if (name.empty() || IsJobIdOf(slot.job.job, name)) jobs.push_back(slot.job);
  }
  if (jobs.empty() && !survey.folders.refused.empty())
    throw RefusedFolders(Phase::kRun, survey.folders.refused);
  return jobs;
}

std::vector<KeptHere> FindKept(const House& house, const std::string& job, int slot,
                               const std::string& name) {
  StartedAgent agent =
      BringSomewhere(house, {.remote_dir = house.remote_dir, .job = job, .slot = slot});
  std::vector<KeptHere> kept;
  if (!agent.link) return kept;
  const auto list = agent.link->Ask<protocol::SlotList>(
      type::kListSlots, protocol::ListSlots{InBytes(agent.folders.bases), false, name, ""},
      AnswerBy(house));
  for (size_t base = 0; base < list.kept.size(); ++base) {
    KeptHere& here = kept.emplace_back(
        KeptHere{KeptFolder(agent.folders.bases.at(base), name), list.kept[base], {}});
    for (const protocol::ListedSlot& listed : list.slots) {
      if (listed.base == base && IsJobIdOf(listed.job, name)) here.jobs.push_back(listed.job);
    }
  }
  std::erase_if(kept, [](const KeptHere& here) { return here.files.files == 0 && here.files.all; });
  return kept;
}

HostSurvey Survey(const House& house) { return Look(house, true); }

Error NotRemoved(Phase phase, const protocol::KeptPath& kept) {
  return Error(phase, "kept " + kept.why, kept.remedy);
}

Removal Clean(const House& house, const std::vector<std::string>& jobs, bool caches_stay,
              const std::vector<std::string>& names) {
  for (const std::string& job : jobs) CheckId(job);
  return Remove(house, {.remote_dir = house.remote_dir},
                {.bases = {},
                 .jobs = jobs,
                 .slot = -1,
                 .caches_stay = caches_stay,
                 .kept = false,
                 .kept_names = names});
}

Removal PurgeJob(const House& house, const std::string& job, int slot, bool keeps) {
  return Remove(house,
                {.remote_dir = house.remote_dir, .job = job, .slot = slot, .known = house.known},
                {.bases = {},
                 .jobs = {job},
                 .slot = slot,
                 .caches_stay = true,
                 .kept = keeps,
                 .kept_names = {}});
}

}  // namespace tfdist::cli
