#include "cli/job/asking_channel.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/failures.h"

namespace tfdist::cli {
namespace {

TimePoint Now() { return SystemClock().Now(); }

class Asking : public ByteChannel {
 public:
  Asking(std::unique_ptr<ByteChannel> channel, std::function<bool()> is_off,
         std::shared_ptr<const bool> has_answered)
      : channel_(std::move(channel)),
        is_off_(std::move(is_off)),
        has_answered_(std::move(has_answered)) {
    SetOnNote([this](const std::string& text) { channel_->Note(text); });
  }

  ReadResult Read(std::string& out, TimePoint deadline) override {
    while (!*has_answered_) {
      const TimePoint next = begin_ + silence_;
      const ReadResult result = channel_->Read(out, std::min(deadline, next));
      if (result != ReadResult::kTimeout) return result;
      if (Now() >= next) Ask();
      if (Now() >= deadline) return result;
    }
    return channel_->Read(out, deadline);
  }
  void Write(std::string_view bytes, TimePoint deadline) override {
    channel_->Write(bytes, deadline);
  }
  [[nodiscard]] int PollFd() const override { return channel_->PollFd(); }
  [[nodiscard]] std::string Stderr() const override { return channel_->Stderr(); }
  std::unique_ptr<ByteChannel> OpenAnother(TimePoint deadline) override {
    return channel_->OpenAnother(deadline);
  }
  void CloseInput(TimePoint deadline) override { channel_->CloseInput(deadline); }
  std::optional<int> ExitStatus(TimePoint deadline) override {
    return channel_->ExitStatus(deadline);
  }

 private:
  void Ask() {
    if (is_off_()) {
      throw Unreachable(Phase::kExec, "it lets one log in, and then says nothing",
                        "look at the host itself: its disks, and what it does");
    }
    silence_ *= 3;
  }

  const std::unique_ptr<ByteChannel> channel_;
  const std::function<bool()> is_off_;
  const std::shared_ptr<const bool> has_answered_;
  const TimePoint begin_ = Now();
  std::chrono::seconds silence_{5};
};

}  // namespace

std::unique_ptr<ByteChannel> AskingChannel(std::unique_ptr<ByteChannel> channel,
                                           std::function<bool()> is_off,
                                           std::shared_ptr<const bool> has_answered) {
  return std::make_unique<Asking>(std::move(channel), std::move(is_off), std::move(has_answered));
}

}  // namespace tfdist::cli
