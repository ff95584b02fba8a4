#include "cli/stream/end_at_limit.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "cli/exit_codes.h"
#include "cli/job/connector.h"
#include "cli/stream/print.h"

namespace tfdist::cli {

EndAtLimit::EndAtLimit(std::optional<TimePoint> limit, std::function<std::string()> words)
    : words_(std::move(words)), done_(eventfd(0, EFD_CLOEXEC)) {
  if (limit) thread_ = std::thread([this, at = *limit] { Watch(at); });
}

EndAtLimit::~EndAtLimit() {
  (void)eventfd_write(done_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

void EndAtLimit::Watch(TimePoint limit) const {
  pollfd wait{done_.get(), POLLIN, 0};
  for (TimePoint now = SystemClock().Now(); now < limit; now = SystemClock().Now()) {
    if (poll(&wait, 1, PollTimeout(now, limit)) > 0) return;
  }
  Say("tfdist: --timeout has passed: {}\n", words_());
  (void)fflush(stdout);
  EndConnections();
  _exit(kExitTimedOut);
}

}  // namespace tfdist::cli
