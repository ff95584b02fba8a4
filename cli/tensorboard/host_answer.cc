#include "cli/tensorboard/host_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/channel/tail.h"
#include "cli/job/connector.h"

namespace tfdist::cli {
namespace {

constexpr std::chrono::seconds kAnswerStartLimit{30};
constexpr std::chrono::milliseconds kAnswerTurn{250};  // how late Ctrl-C may be seen
constexpr size_t kMostAnswerBytes = size_t{16} << 20;

}  // namespace

HostCommand CommandAt(const Site& site, std::vector<std::string> words) {
  HostCommand command;
  command.words = std::move(words);
  if (!site.task.empty()) {
    command.task = site.task;
    command.job = site.job;
    command.slot = site.slot;
    command.base = site.base;
    command.known = site.known;
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

HostTalk::HostTalk(Site site, SshOptions ssh, std::function<bool()> is_off)
    : site_(std::move(site)),
      ssh_(std::move(ssh)),
      transport_(MakeTransport(site_.host, ssh_, Silence::kIsOff, {}, std::move(is_off))) {}

HostAnswer HostTalk::Ask(std::vector<std::string> words, std::chrono::seconds limit) {
  try {
    return AskOnce(std::move(words), limit);
  } catch (const TalkInterrupted&) {
    throw;
  } catch (Error& error) {
    if (error.host().empty()) error = error.WithHost(site_.host.name);
    throw;
  }
}

// A connection may have broken since the last question.
std::unique_ptr<ByteChannel> HostTalk::OpenShell(TimePoint& deadline) {
  try {
    return transport_->OpenShell(deadline);
  } catch (const LostConnection&) {
    if (!std::exchange(has_answered_, false)) throw;
  }
  return transport_->OpenShell(deadline);
}

HostAnswer HostTalk::AskOnce(std::vector<std::string> words, std::chrono::seconds limit) {
  TimePoint start_by = SystemClock().Now() + kAnswerStartLimit;
  const std::string program = words.at(0);
  HostCommand command = CommandAt(site_, std::move(words));
  command.limit = limit;
  auto shell = OpenShell(start_by);
  RunningCommand running(std::move(shell), command, start_by);
  const TimePoint deadline = SystemClock().Now() + limit;
  HostAnswer answer;
  while (true) {
    if (interrupts_ != nullptr && interrupts_->Take() > 0) throw TalkInterrupted();
    const TimePoint turn_end = std::min(deadline, SystemClock().Now() + kAnswerTurn);
    const auto end = running.Read(answer.output, turn_end);
    if (answer.output.size() > kMostAnswerBytes) answer.output.resize(kMostAnswerBytes);
    if (end) {
      answer.status = end->status;
      has_answered_ = true;
      return answer;
    }
    if (SystemClock().Now() >= deadline) {
      throw LostConnection(Phase::kExec,
                           fmt::format("{} has not ended within {} s", program, limit.count()));
    }
  }
}

}  // namespace tfdist::cli
