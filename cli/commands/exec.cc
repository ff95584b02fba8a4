// `tfdist exec [JOB] [TASK|HOST...] -- COMMAND`: a command on many hosts, at once.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/failures.h"
#include "base/inner_command.h"
#include "base/text.h"
#include "cli/cluster_file/quantity.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/find/find_job.h"
#include "cli/find/sites.h"
#include "cli/hosts/fan_out.h"
#include "cli/job/connector.h"
#include "cli/job/job_record.h"
#include "cli/render/quote.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/stream/end_at_limit.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

constexpr int kFirstSignalStatus = 128;  // of a shell: 128 and the signal's number
// Longer than we take to end the command: the host does it only where we cannot.
constexpr std::chrono::seconds kHostLimitAbove{30};

std::optional<std::chrono::milliseconds> TimeoutOf(const ExecArguments& arguments) {
  if (arguments.timeout.empty()) return std::nullopt;
  const auto milliseconds = ParseOptionMs(arguments.timeout);
  if (milliseconds && *milliseconds > 0) return std::chrono::milliseconds(*milliseconds);
  throw UsageError(Phase::kUsage,
                   fmt::format("--timeout: expected a time like 5m (units: {}), got {}",
                               DurationUnits(), arguments.timeout));
}

bool IsKnownJob(const std::string& word) {
  return std::ranges::any_of(LoadRecords(), [&](const JobRecord& record) {
    return record.name == word || record.id == word;
  });
}

// `exec gpu1 gpu2 -- uptime`: hosts of no job.
Sites SitesOfWords(const ExecArguments& arguments) {
  const std::vector<std::string>& words = arguments.words;
  try {
    return FindRunningSites(words);
  } catch (const NoSuchJob& error) {
    const bool may_be_hosts = !words.empty() && !IsKnownJob(words[0]) &&
                              std::ranges::none_of(words, [](const std::string& word) {
                                return LooksLikeAFile(word) || word.find(':') != word.npos;
                              });
    if (!may_be_hosts) throw;
    std::string command;
    for (const std::string& word : arguments.command) command += " " + ShellWord(word);
    throw NoSuchJob(
        error.phase(), error.cause(),
        fmt::format("for hosts: tfdist exec -H {} --{}", fmt::join(words, ","), command));
  }
}

Sites SitesOf(const ExecArguments& arguments) {
  if (arguments.command.empty()) {
    const std::vector<std::string>& words = arguments.words;
    const bool is_command =
        !words.empty() && !IsKnownJob(words[0]) && words[0].find_first_of("@:/.") == words[0].npos;
    throw UsageError(Phase::kUsage, "exec needs a command, after --",
                     is_command ? fmt::format("tfdist exec -- {}", fmt::join(words, " "))
                                : "tfdist exec -H gpu1,gpu2 -- uptime");
  }
  if (arguments.hosts.empty()) return SitesOfWords(arguments);
  if (arguments.words.empty())
    return SitesOfHosts(arguments.hosts, arguments.ssh_config, arguments.transport);
  throw UsageError(Phase::kUsage, "-H and a job exclude each other");
}

std::vector<Errand> ErrandsOf(const Sites& sites, const ExecArguments& arguments) {
  std::chrono::seconds limit{0};
  if (const auto timeout = TimeoutOf(arguments)) {
    limit = std::chrono::ceil<std::chrono::seconds>(*timeout) + kHostLimitAbove;
  }
  std::vector<Errand> errands;
  for (const Site& site : sites.sites) {
    HostCommand command;
    command.words = arguments.command;
    command.expands_home = true;
    command.limit = limit;
    if (!site.task.empty()) {
      command.task = site.task;
      command.job = site.job;
      command.slot = site.slot;
      command.base = site.base;
      command.known = site.known;
    }
    errands.push_back({site.label(), site.host, std::move(command)});
  }
  return errands;
}

// "exit code 3", "signal 9 (SIGKILL)", "timed out"; empty for success.
std::string HowItEnded(const ErrandResult& result) {
  if (!result.end) return {};
  if (result.timed_out) {
    const bool is_all = result.end->left.empty() && result.end->may_be_left.empty();
    return is_all ? "timed out, and was ended" : "timed out, and was ended as far as can be seen";
  }
  const int status = result.end->status;
  if (status == 0) return {};
  protocol::TaskExit exit;
  exit.code = status;
  if (status > kFirstSignalStatus && status < kFirstSignalStatus + 65) {
    exit.signal = status - kFirstSignalStatus;
  }
  return Describe(exit);
}

// Labels of equal things, each group in the order of its first one.
class Groups {
 public:
  void Add(const std::string& key, size_t at) {
    const auto [place, is_new] = places_.try_emplace(key, members_.size());
    if (is_new) members_.emplace_back();
    members_[place->second].push_back(at);
  }
  [[nodiscard]] const std::vector<std::vector<size_t>>& all() const { return members_; }

 private:
  std::map<std::string, size_t> places_;
  std::vector<std::vector<size_t>> members_;
};

std::string Labels(const std::vector<Errand>& errands, const std::vector<size_t>& group) {
  std::vector<std::string> labels;
  for (const size_t at : group) labels.push_back(errands[at].label);
  return FoldHosts(labels);
}

// Equal output once, under the list of those that have printed it.
void PrintGathered(const std::vector<Errand>& errands, const std::vector<ErrandResult>& results) {
  Groups groups;
  for (size_t at = 0; at < results.size(); ++at) {
    const ErrandResult& result = results[at];
    if (!result.end && result.output.empty()) continue;
    groups.Add(fmt::format("{} {} {}\n{}", HowItEnded(result), result.cut, result.end.has_value(),
                           result.output),
               at);
  }
  for (const std::vector<size_t>& group : groups.all()) {
    const ErrandResult& first = results[group.front()];
    const std::string how = HowItEnded(first);
    Print("---- {} ({}){}{}\n", Labels(errands, group), group.size(), how.empty() ? "" : ": ", how);
    const bool is_open = !first.output.empty() && first.output.back() != '\n';
    PrintLines(first.output + (is_open ? "\n" : ""));
    if (first.cut) Print("---- the rest is left out\n");
  }
}

void PrintResults(const Sites& sites, const std::vector<ErrandResult>& results) {
  nlohmann::json list = nlohmann::json::array();
  for (size_t at = 0; at < results.size(); ++at) {
    const ErrandResult& result = results[at];
    list.push_back({{"host", sites.sites[at].host.name},
                    {"task", sites.sites[at].task},
                    {"exit_code", nullptr},
                    {"timed_out", result.timed_out},
                    {"output", result.output},
                    {"cut", result.cut},
                    {"left", result.end ? result.end->left : ""},
                    {"may_be_left", result.end ? result.end->may_be_left : ""},
                    {"error", result.error ? result.error->what() : ""}});
    if (result.end) list.back()["exit_code"] = result.end->status;
  }
  PrintJson(list);
}

void SayFailures(const std::vector<Errand>& errands, const std::vector<ErrandResult>& results) {
  Groups groups;
  for (size_t at = 0; at < results.size(); ++at) {
    const std::string how = HowItEnded(results[at]);
    if (!how.empty()) groups.Add(how, at);
  }
  for (const std::vector<size_t>& group : groups.all()) {
    Say("tfdist: {}: {}\n", Labels(errands, group), HowItEnded(results[group.front()]));
  }
}

std::vector<Error> ErrorsOf(const std::vector<Errand>& errands,
                            const std::vector<ErrandResult>& results) {
  std::vector<Error> errors;
  for (size_t at = 0; at < results.size(); ++at) {
    const ErrandResult& result = results[at];
    if (result.error) errors.push_back(*result.error);
    if (result.end && !result.end->left.empty()) {
      errors.push_back(Error(Phase::kExec, fmt::format("processes of the command could not be "
                                                       "ended: {}",
                                                       result.end->left))
                           .WithHost(errands[at].host.name));
    }
  }
  return errors;
}

void SayWhatMayBeLeft(const std::vector<Errand>& errands,
                      const std::vector<ErrandResult>& results) {
  for (size_t at = 0; at < results.size(); ++at) {
    const auto& end = results[at].end;
    if (!end || end->may_be_left.empty()) continue;
    Say("tfdist: {}: may still run: {}\n", errands[at].label, end->may_be_left);
  }
}

// `exec -- "cd /tmp && pwd"` or `exec -- cd /tmp`, as one writes it for ssh, which has a shell read it.
void SayThatNoShellRunsIt(const std::vector<std::string>& command,
                          const std::vector<ErrandResult>& results) {
  constexpr int kCannotBeRun = 126;
  constexpr int kNotFound = 127;
  const bool is_line = command.size() == 1 && command[0].find(' ') != std::string::npos;
  const bool was_not_found = std::ranges::any_of(results, [](const ErrandResult& result) {
    return result.end && (result.end->status == kCannotBeRun || result.end->status == kNotFound);
  });
  if (!was_not_found) return;
  if (is_line)
    return Say("  try: no shell reads the command; for one: -- sh -c {}\n",
               ShellQuoted(command[0]));
  if (!IsShellWord(command[0])) return;
  std::string line = command[0];
  for (size_t at = 1; at < command.size(); ++at) line += " " + ShellWord(command[at]);
  Say("  try: only a shell knows {}, and none reads the command; for one: -- bash -c {}\n",
      command[0], ShellQuoted(line + "; ..."));
}

// The user's shell has put this machine's home folder there.
void SayThatTheTildeWasRead(const Sites& sites, const std::vector<std::string>& command,
                            const std::vector<ErrandResult>& results) {
  for (size_t at = 0; at < results.size(); ++at) {
    const auto& end = results[at].end;
    if (!end || end->status == 0 || sites.sites[at].host.local) continue;
    for (const std::string& word : command) {
      const std::string remedy = QuoteTheTilde(word);
      if (!remedy.empty()) return Say("  try: {}\n", remedy);
    }
  }
}

int WorstExitCode(const FanOutResult& done) {
  if (done.interrupted) return kExitInterrupted;
  int worst = 0;
  for (const ErrandResult& result : done.results) {
    int code = kExitHost;
    if (result.end && result.end->left.empty()) code = result.end->status;
    if (result.timed_out && (!result.end || result.end->left.empty())) code = kExitTimedOut;
    worst = std::max(worst, code);
  }
  return worst;
}

}  // namespace

int ExecCommand(const ExecArguments& arguments) {
  FanOutOptions options;
  if (const auto timeout = TimeoutOf(arguments)) options.until = SystemClock().Now() + *timeout;
  const Sites sites = [&] {
    const EndAtLimit ends(options.until, [] {
      return "the hosts of the job did not say in time what runs there; nothing was started";
    });
    return SitesOf(arguments);
  }();
  const std::vector<Errand> errands = ErrandsOf(sites, arguments);
  options.gather = arguments.gather || arguments.json;
  const FanOutResult done = FanOut(errands, sites.ssh, options);
  const bool has_run = std::ranges::any_of(
      done.results, [](const ErrandResult& result) { return result.end.has_value(); });
  PrintDone(has_run ? "the command has run" : "the command was not run", [&] {
    if (arguments.json) PrintResults(sites, done.results);
    if (arguments.gather && !arguments.json) PrintGathered(errands, done.results);
    if (!options.gather && !done.interrupted) SayFailures(errands, done.results);
    PrintErrors(ErrorsOf(errands, done.results));
    SayWhatMayBeLeft(errands, done.results);
    SayThatNoShellRunsIt(arguments.command, done.results);
    SayThatTheTildeWasRead(sites, arguments.command, done.results);
  });
  if (done.threads_left) {
    (void)fflush(stdout);
    EndConnections();
    _exit(WorstExitCode(done));
  }
  return WorstExitCode(done);
}

}  // namespace tfdist::cli
