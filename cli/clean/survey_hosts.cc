#include "cli/clean/survey_hosts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cli/clean/ask_all.h"
#include "cli/show/report.h"
#include "cli/stream/host_fold.h"

namespace tfdist::cli {
namespace {

bool IsSameSlot(const SlotOnHost& a, const SlotOnHost& b) {
  return a.job.base == b.job.base && a.job.job == b.job.job && a.job.slot == b.job.slot;
}

bool HasSlotsOf(const HostSurvey& a, const HostSurvey& b) {
  return std::ranges::all_of(b.slots, [&](const SlotOnHost& slot) {
    return std::ranges::any_of(a.slots,
                               [&](const SlotOnHost& other) { return IsSameSlot(slot, other); });
  });
}

// A slot belongs to one host: two hosts that list the same slots share a folder, as a home on a network is. A host that
// lists anything else has another folder, too, so the command asks both hosts.
bool HaveOneFolder(const HostSurvey& a, const HostSurvey& b) {
  return !a.slots.empty() && HasSlotsOf(a, b) && HasSlotsOf(b, a) &&
         std::ranges::equal(a.kept, b.kept, {}, &KeptOfName::folder, &KeptOfName::folder) &&
         a.caches_kib == b.caches_kib;
}

// It runs where one of them sees that.
void Merge(const HostSurvey& from, HostSurvey& into) {
  for (SlotOnHost& slot : into.slots) {
    slot.job.running =
        slot.job.running || std::ranges::any_of(from.slots, [&](const SlotOnHost& other) {
          return IsSameSlot(slot, other) && other.job.running;
        });
  }
}

// What lies in a folder that several hosts have is listed, and removed, once.
void MergeThoseWithOneFolder(HostsSurvey& survey) {
  std::vector<HostPlan> hosts;
  std::vector<HostSurvey> surveys;
  std::vector<std::vector<std::string>> names;
  for (size_t at = 0; at < survey.hosts.size(); ++at) {
    HostSurvey& one = survey.hosts[at];
    const auto same = std::ranges::find_if(
        surveys, [&](const HostSurvey& other) { return HaveOneFolder(other, one); });
    const auto place = static_cast<size_t>(same - surveys.begin());
    if (same != surveys.end()) {
      Merge(one, *same);
    } else {
      hosts.push_back(survey.answering[at]);
      surveys.push_back(std::move(one));
      names.emplace_back();
    }
    names[place].push_back(survey.answering[at].name);
  }
  for (size_t at = 0; at < hosts.size(); ++at) hosts[at].name = FoldHosts(names[at]);
  survey.answering = std::move(hosts);
  survey.hosts = std::move(surveys);
}

}  // namespace

HostsSurvey SurveyHosts(const Plan& plan) {
  auto answers = AskAll<HostSurvey>(plan.hosts, plan.ssh, Survey);
  HostsSurvey survey;
  std::vector<Error> errors;
  for (size_t at = 0; at < answers.size(); ++at) {
    if (answers[at].error) {
      errors.push_back(*answers[at].error);
      ++survey.unanswered;
      survey.silent.insert(MachineOf(plan.hosts[at]));
    } else {
      const auto& refused = answers[at].answer.folders.refused;
      if (!refused.empty())
        errors.push_back(RefusedFolders(Phase::kFiles, refused).WithHost(plan.hosts[at].name));
      (refused.empty() ? survey.seen : survey.silent).insert(MachineOf(plan.hosts[at]));
      survey.answering.push_back(plan.hosts[at]);
      survey.hosts.push_back(std::move(answers[at].answer));
    }
  }
  PrintErrors(errors);
  MergeThoseWithOneFolder(survey);
  return survey;
}

}  // namespace tfdist::cli
