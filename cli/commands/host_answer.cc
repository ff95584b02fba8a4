#include "cli/commands/host_answer.h"

#include <fmt/format.h>

#include <utility>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/job/connector.h"
#include "cli/link/tail.h"

namespace tfdist::cli {
namespace {

constexpr std::chrono::seconds kAnswerStartLimit{30};
constexpr size_t kMostAnswerBytes = size_t{16} << 20;

HostAnswer AskOnce(const Site& site, const SshOptions& ssh, std::vector<std::string> words,
                   std::chrono::seconds limit) {
  const TimePoint start_by = SystemClock().Now() + kAnswerStartLimit;
  const auto transport = MakeTransport(site.host, ssh);
  const std::string program = words.at(0);
  HostCommand command = CommandAt(site, std::move(words));
  command.limit = limit;
  RunningCommand running(transport->OpenShell(start_by), command, start_by);
  const TimePoint deadline = SystemClock().Now() + limit;
  HostAnswer answer;
  while (true) {
    const auto end = running.Read(answer.output, deadline);
    if (answer.output.size() > kMostAnswerBytes) answer.output.resize(kMostAnswerBytes);
    if (end) {
      answer.status = end->status;
      return answer;
    }
    if (SystemClock().Now() >= deadline) {
      throw LostConnection(Phase::kExec,
                           fmt::format("{} has not ended within {} s", program, limit.count()));
    }
  }
}

}  // namespace

HostCommand CommandAt(const Site& site, std::vector<std::string> words) {
  HostCommand command;
  command.words = std::move(words);
  if (!site.task.empty()) {
    command.task = site.task;
    command.job = site.job;
    command.slot = site.slot;
    command.base = site.base;
  }
  return command;
}

std::string HostAnswer::LastLine() const {
  const size_t end = output.find_last_not_of("\n ");
  if (end == std::string::npos) return "";
  const size_t before = output.rfind('\n', end);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return OnOneLine(output.substr(begin, end + 1 - begin));
}

HostAnswer AskHost(const Site& site, const SshOptions& ssh, std::vector<std::string> words,
                   std::chrono::seconds limit) {
  try {
    return AskOnce(site, ssh, std::move(words), limit);
  } catch (Error& error) {
    if (error.host().empty()) error = error.WithHost(site.host.name);
    throw;
  }
}

}  // namespace tfdist::cli
