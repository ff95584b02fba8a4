#include "cli/show/slow_notice.h"

#include <chrono>
#include <utility>

#include "cli/stream/print.h"

namespace tfdist::cli {

SlowNotice::SlowNotice(std::string text) : SlowNotice([text = std::move(text)] { return text; }) {}

SlowNotice::SlowNotice(std::function<std::string()> text)
    : thread_([text = std::move(text), done = done_.get_future()] {
        if (done.wait_for(std::chrono::seconds(1)) != std::future_status::timeout) return;
        const std::string words = text();
        if (!words.empty()) Say("tfdist: {}\n", words);
      }) {}

SlowNotice::~SlowNotice() {
  done_.set_value();
  thread_.join();
}

}  // namespace tfdist::cli
