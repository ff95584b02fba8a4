// What a host prints where a boot script was to run. However the bytes are cut, the outcome is the
// same, and it comes: an error of ours, or what the host said, whose ids are fit for folder names.
//
// Input: which function (first byte), then what the host prints; NONCE in it stands for the line
// that only a running script can print.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/link/bootstrap.h"

namespace tfdist::cli {
namespace {

constexpr std::string_view kPlaceholder = "NONCE";
constexpr size_t kNonceDigits = 32;
constexpr size_t kNoiseLimitBytes = 64 * 1024;
// The script, and an agent that takes one piece.
constexpr int kMostWrites = 2;

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
    answer_.replace(at, kPlaceholder.size(), fmt::format("{}\n", nonce));
  }

  std::string answer_;
  size_t cut_;
  size_t next_ = 0;
  int writes_ = 0;
};

std::string Show(const RemoteJob& job) {
  assert(!job.job.empty() && job.job.find_first_of("/ '\n") == std::string::npos);
  assert(job.slot >= 0);
  return fmt::format("{} {} {} {}\n", job.base, job.job, job.slot, job.running);
}

std::string Show(const Removal& removal) {
  return fmt::format("{} kept {}", fmt::join(removal.removed, "\n"), fmt::join(removal.kept, "\n"));
}

std::string Show(const BootedAgent& agent) {
  assert(agent.noise.size() <= kNoiseLimitBytes);
  std::string rest;
  while (agent.channel->Read(rest, TimePoint::max()) == ByteChannel::ReadResult::kData) continue;
  return fmt::format("{} {} {}", agent.noise, agent.uploaded, rest);
}

std::string ShowStart(std::unique_ptr<ByteChannel> channel) {
  static constexpr std::array<std::byte, 3> kGzip{};
  EmbeddedAgent agent;
  agent.gzip = kGzip;
  agent.sha256_hex = "abcd";
  agent.size_bytes = 9;
  agent.machine = "x86_64";
  return Show(
      StartAgent(std::move(channel), {&agent, 1}, "", Upload::kIfMissing, TimePoint::max()));
}

std::string ShowJobs(std::unique_ptr<ByteChannel> channel) {
  std::string text;
  for (const RemoteJob& job : FindJobs(std::move(channel), "", "", TimePoint::max())) {
    (void)IsJobIdOf(job.job, "digits");
    text += Show(job);
  }
  return text;
}

std::string ShowSurvey(std::unique_ptr<ByteChannel> channel) {
  const HostSurvey survey = Survey(std::move(channel), "", TimePoint::max());
  std::string text = fmt::format("{}\n", survey.caches_kib);
  for (const SlotOnHost& slot : survey.slots) {
    text += fmt::format("{} {} {}", slot.size_kib, slot.has_task_files, Show(slot.job));
  }
  return text;
}

std::string Outcome(int function, std::unique_ptr<ByteChannel> channel) {
  constexpr TimePoint kNever = TimePoint::max();
  try {
    switch (function) {
      case 0:
        return ShowStart(std::move(channel));
      case 1:
        return Show(AttachAgent(std::move(channel), "", "digits-1", 0, kNever));
      case 2:
        return ShowJobs(std::move(channel));
      case 3:
        return ShowSurvey(std::move(channel));
      case 4:
        return Show(Clean(std::move(channel), "", {"digits-1"}, false, kNever));
      default:
        return Show(PurgeJob(std::move(channel), "", "digits-1", 0, kNever));
    }
  } catch (const Error& error) {
    return fmt::format("{}: {}", error.what(), error.remedy());
  }
}

void Run(int function, std::string_view answer) {
  const auto outcome = [&](size_t cut) {
    return Outcome(function, std::make_unique<PrintedAnswer>(answer, cut));
  };
  assert(outcome(3) == outcome(1 << 20));
}

}  // namespace
}  // namespace tfdist::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  tfdist::cli::Run(data[0] % 6, {reinterpret_cast<const char*>(data + 1), size - 1});
  return 0;
}
