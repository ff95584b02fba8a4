// What a host prints where a boot script was to run. However the bytes are cut, the outcome is the
// same, and it comes: an error of ours, or what the host said, whose ids are fit for folder names.
//
// Input: which function (first byte), then what the host prints; NONCE in it stands for the line
// that only a running script can print, and the lines after it get the mark of one. An agent of the role `house` speaks in frames.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/link/bootstrap.h"
#include "cli/link/house.h"

namespace tfdist::cli {
namespace {

constexpr std::string_view kPlaceholder = "NONCE";
constexpr size_t kNonceDigits = 32;
constexpr size_t kNoiseLimitBytes = 64 * 1024;
// The script, an agent that takes one piece, and a request to it.
constexpr int kMostWrites = 3;

class PrintedAnswer : public ByteChannel {
 public:
  PrintedAnswer(std::string_view answer, size_t cut) : answer_(answer), cut_(cut) {}

  ReadResult Read(std::string& out, TimePoint /*deadline*/) override {
    if (next_ == answer_.size()) return ReadResult::kEndOfFile;
    const size_t size = std::min(cut_, answer_.size() - next_);
    out.append(answer_, next_, size);
    next_ += size;
    return ReadResult::kData;
  }
  void Write(std::string_view bytes, TimePoint /*deadline*/) override {
    if (writes_ == 0) PutNonce(bytes);
    ++writes_;
    assert(writes_ <= kMostWrites);
  }
  [[nodiscard]] int PollFd() const override { return -1; }
  [[nodiscard]] std::string Stderr() const override { return "stderr"; }

 private:
  void PutNonce(std::string_view script) {
    constexpr std::string_view kBefore = "nonce=";
    const size_t value = script.find(kBefore);
    assert(value != std::string_view::npos);
    const size_t at = answer_.find(kPlaceholder);
    if (at == std::string::npos) return;
    const auto nonce = script.substr(value + kBefore.size(), kNonceDigits);
    const std::string rest = answer_.substr(at + kPlaceholder.size());
    answer_.replace(at, std::string::npos, fmt::format("{}\n{}", nonce, Marked(rest, nonce)));
  }
  // The script's lines, up to the one after which the agent speaks.
  static std::string Marked(std::string_view text, std::string_view nonce) {
    std::string marked;
    bool runs = false;
    while (!text.empty() && !runs) {
      runs = text.starts_with("run");
      const size_t size = std::min(text.size(), text.find('\n')) + 1;
      marked += fmt::format("{} {}", nonce, text.substr(0, size));
      text.remove_prefix(std::min(text.size(), size));
    }
    return marked.append(text);
  }

  std::string answer_;
  size_t cut_;
  size_t next_ = 0;
  int writes_ = 0;
};

// Whose shell prints the same each time.
class PrintingHost : public Transport {
 public:
  PrintingHost(std::string_view answer, size_t cut) : answer_(answer), cut_(cut) {}
  std::unique_ptr<ByteChannel> OpenShell(TimePoint& /*deadline*/) override {
    return std::make_unique<PrintedAnswer>(answer_, cut_);
  }

 private:
  std::string_view answer_;
  size_t cut_;
};

std::string Show(const RemoteJob& job) {
  assert(!job.job.empty() && job.job.find_first_of("/ '\n") == std::string::npos);
  assert(job.slot >= 0);
  return fmt::format("{} {} {} {}\n", job.base, job.job, job.slot, job.running);
}

std::string Show(const Removal& removal) {
  std::string text =
      fmt::format("{} used {}", fmt::join(removal.removed, "\n"), fmt::join(removal.in_use, "\n"));
  for (const protocol::KeptPath& kept : removal.kept) text += kept.why + kept.remedy;
  return text;
}

std::string Show(const BootedAgent& agent) {
  assert(agent.noise.size() <= kNoiseLimitBytes);
  std::string rest;
  while (agent.channel->Read(rest, TimePoint::max()) == ByteChannel::ReadResult::kData) continue;
  return fmt::format("{} {} {}", agent.noise, agent.uploaded, rest);
}

constexpr std::array<std::byte, 3> kGzip{};
constexpr EmbeddedAgent kAgent{
    .gzip = kGzip, .xz = {}, .sha256_hex = "abcd", .size_bytes = 9, .machine = "x86_64"};

std::string ShowJobs(const House& house) {
  std::string text;
  for (const RemoteJob& job : FindJobs(house, "")) {
    (void)IsJobIdOf(job.job, "digits");
    text += Show(job);
  }
  return text;
}

std::string ShowSurvey(const House& house) {
  const HostSurvey survey = Survey(house);
  std::string text = fmt::format("{}\n", survey.caches_kib);
  for (const SlotOnHost& slot : survey.slots) {
    text += fmt::format("{} {} {}", slot.size_kib, slot.has_task_files, Show(slot.job));
  }
  return text;
}

std::string Result(int function, PrintingHost& host) {
  TimePoint never = TimePoint::max();
  const std::string remote_dir;
  const House house{host, {&kAgent, 1}, remote_dir, std::chrono::hours(1)};
  switch (function) {
    case 0:
      return Show(StartAgent(host.OpenShell(never), house.agents, "", Upload::kIfMissing, never));
    case 1:
      return Show(AttachAgent(host.OpenShell(never), "", "digits-1", 0, never));
    case 2:
      return ShowJobs(house);
    case 3:
      return ShowSurvey(house);
    case 4:
      return Show(Clean(house, {"digits-1"}, false));
    default:
      return Show(PurgeJob(house, "digits-1", 0, true));
  }
}

std::string Outcome(int function, PrintingHost host) {
  try {
    return Result(function, host);
  } catch (const Error& error) {
    return fmt::format("{}: {}", error.what(), error.remedy());
  }
}

void Run(int function, std::string_view answer) {
  const auto outcome = [&](size_t cut) { return Outcome(function, PrintingHost(answer, cut)); };
  assert(outcome(3) == outcome(1 << 20));
}

}  // namespace
}  // namespace tfdist::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  tfdist::cli::Run(data[0] % 6, {reinterpret_cast<const char*>(data + 1), size - 1});
  return 0;
}
