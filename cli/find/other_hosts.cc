#include "cli/find/other_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/connector.h"
#include "cli/job/go_on.h"
#include "cli/link/bootstrap.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"
#include "wire/contact.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kOtherHostsLimit = 20s;
// A coordinator beats each second.
constexpr auto kSilentAfterBeats = 4s;

// An agent that runs says how long it has not heard of the coordinator.
HostsWord OfAgent(AgentLink& link, TimePoint deadline) {
  const auto contact =
      link.Ask<agent::Contact>(agent::kContactRequest, protocol::Json::object(), deadline);
  const std::chrono::milliseconds silence(contact.silence_ms);
  HostsWord said;
  if (contact.over) {
    said.word = Word::kOver;
    said.why = "the job is over there";
  } else if (silence < kSilentAfterBeats) {
    said.word = Word::kHears;
    said.why = fmt::format(
        "its agent last heard from the coordinator {} ago and considers the job running",
        DurationText(std::chrono::ceil<std::chrono::seconds>(silence)));
  } else {
    said.word = Word::kWaits;
    said.misses_first = true;
    said.why = fmt::format(
        "its agent has not heard the coordinator for {}; it ends its tasks when that lasts",
        DurationText(std::chrono::floor<std::chrono::seconds>(silence)));
  }
  return said;
}

HostsWord AskOne(const JobRecord& record, int slot, const std::function<bool()>& is_off) {
  TimePoint deadline = SystemClock().Now() + kOtherHostsLimit;
  try {
    return AskAgainWhenCutOff(deadline, [&] {
      const Attached host = Attach(record, slot, deadline, is_off);
      HostsWord said;
      if (host.hello.serving == protocol::Serving::kAgent) said = OfAgent(*host.link, deadline);
      said.has_folder = true;
      if (host.hello.serving == protocol::Serving::kAgent) return said;
      if (host.hello.silent) {
        said.word = Word::kSilent;
        said.why = fmt::format("its agent {}", *host.hello.silent);
        return said;
      }
      said.word = Word::kOver;
      said.misses_first = host.hello.orphaned.has_value();
      said.was_killed = host.hello.killed.has_value();
      said.why =
          host.hello.orphaned.value_or(host.hello.killed.value_or("nothing of the job runs there"));
      return said;
    });
  } catch (const NothingThere&) {
    HostsWord said;
    said.word = Word::kOver;
    said.why = "nothing of the job is there";
    return said;
  }
}

}  // namespace

std::string_view NameOf(Word word) {
  switch (word) {
    case Word::kWaits:
      return "waits";
    case Word::kHears:
      return "running";
    case Word::kSilent:
      return "silent";
    case Word::kOver:
      return "over";
    case Word::kNothing:
      return "unreachable";
  }
  return "";
}

std::vector<HostsWord> AskHosts(const JobRecord& record, const std::vector<int>& slots,
                                const std::function<bool()>& is_off) {
  std::vector<HostsWord> words(slots.size());
  const auto failures =
      ForEachHost(slots.size(), [&](size_t at) { words[at] = AskOne(record, slots[at], is_off); });
  for (size_t at = 0; at < slots.size(); ++at) {
    words[at].host = record.hosts.at(static_cast<size_t>(slots[at])).name;
    if (failures[at]) words[at].why = fmt::format("cannot be asked: {}", failures[at]->cause());
  }
  return words;
}

void PrintWords(const std::vector<HostsWord>& words, std::string_view between) {
  std::vector<Error> errors;
  for (const HostsWord& word : words)
    errors.push_back(Error(Phase::kRun, word.why).WithHost(word.host));
  for (const FoldedError& folded : FoldErrors(errors)) {
    const Error& first = folded.all.front();
    Print("host {}{}{}\n", first.host(), between, first.cause());
    if (!folded.elsewhere.empty()) Print("  {}\n", folded.elsewhere);
  }
}

std::vector<HostsWord> AskOtherHosts(const JobRecord& record) {
  std::vector<int> others(record.hosts.empty() ? 0 : record.hosts.size() - 1);
  std::iota(others.begin(), others.end(), 1);
  return AskHosts(record, others);
}

bool AllMissFirst(const std::vector<HostsWord>& words) {
  return std::ranges::any_of(words, &HostsWord::misses_first) &&
         std::ranges::none_of(words,
                              [](const HostsWord& said) { return said.word == Word::kHears; });
}

std::function<bool()> IsFirstOff(const JobRecord& record) {
  if (record.hosts.size() < 2) return {};
  return [&record] {
    AddConnectionNote(record.hosts[0].name, "does not answer; asking the other hosts of the job");
    return AllMissFirst(AskOtherHosts(record));
  };
}

namespace {

Error NobodyHearsFirst(const JobRecord& record, const Error& error) {
  std::string remedy = WhatGoesOnWith(record, "");
  if (record.hosts[0].slurm_job.empty()) {
    remedy = fmt::format("{} goes on with the job once it is up again; {}",
                         CommandToStartAgain(record, 0), remedy);
  }
  return Error(error.phase(),
               fmt::format("no answer, neither to this machine nor to the other hosts of the job: "
                           "is it off? ({})",
                           error.cause()),
               remedy)
      .WithHost(record.hosts[0].name);
}

// Hosts that go off together are rarer than a network that does.
bool NobodyAnswers(const Error& error, const std::vector<HostsWord>& words) {
  return error.phase() == Phase::kConnect && !words.empty() &&
         std::ranges::all_of(words,
                             [](const HostsWord& said) { return said.word == Word::kNothing; });
}

}  // namespace

Error WhyFirstIsSilent(const JobRecord& record, const Error& error) {
  return WhyFirstIsSilent(record, error, AskOtherHosts(record));
}

Error WhyFirstIsSilent(const JobRecord& record, const Error& error,
                       const std::vector<HostsWord>& words) {
  if (dynamic_cast<const NothingThere*>(&error) != nullptr) return FolderOfFirstIsGone(record);
  if (dynamic_cast<const OutOfSight*>(&error) != nullptr) return error;
  if (AllMissFirst(words)) return NobodyHearsFirst(record, error);
  if (!NobodyAnswers(error, words)) return error;
  return Error(error.phase(), error.cause() + "; nor does any other host of the job answer",
               "see whether this machine's network (a VPN?) is up, and ask again")
      .WithHost(record.hosts[0].name);
}

Error FolderOfFirstIsGone(const JobRecord& record) {
  return Error(
             Phase::kRun,
             "the job's folder is gone from it, with the event log: nobody leads the job any more",
             fmt::format("tfdist down {} ends what is left of it", record.id))
      .WithHost(record.hosts[0].name);
}

}  // namespace tfdist::cli
