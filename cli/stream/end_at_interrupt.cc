#include "cli/stream/end_at_interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "cli/exit_codes.h"
#include "cli/job/connector.h"
#include "cli/stream/print.h"

namespace tfdist::cli {

EndAtInterrupt::EndAtInterrupt(std::function<std::string()> words)
    : words_(std::move(words)),
      own_(std::in_place),
      interrupts_(*own_),
      done_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { Watch(); }) {}

EndAtInterrupt::EndAtInterrupt(std::function<std::string()> words, const Interrupts& heard)
    : words_(std::move(words)),
      interrupts_(heard),
      done_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { Watch(); }) {}

EndAtInterrupt::~EndAtInterrupt() {
  (void)eventfd_write(done_.get(), 1);
  thread_.join();
}

void EndAtInterrupt::Watch() const {
  std::array<pollfd, 2> waits = {{{interrupts_.fd(), POLLIN, 0}, {done_.get(), POLLIN, 0}}};
  while (poll(waits.data(), waits.size(), -1) < 0 && errno == EINTR) {
  }
  if (waits[0].revents == 0) return;
  Say("tfdist: interrupted: {}\n", words_());
  EndConnections();
  _exit(kExitInterrupted);
}

}  // namespace tfdist::cli
