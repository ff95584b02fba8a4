#include "cli/stream/interrupts.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/error.h"

namespace tfdist::cli {
namespace {

// A signal handler can reach only what is static.
int signal_pipe[2] = {-1, -1};

extern "C" void OnInterrupt(int) {
  const int saved = errno;
  [[maybe_unused]] const ssize_t put = write(signal_pipe[1], "!", 1);
  errno = saved;
}

void Install(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

Interrupts::Interrupts() {
  if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw Error(Phase::kInternal, WithErrno("pipe", errno));
  }
  Install(SIGINT, OnInterrupt);
  Install(SIGTERM, OnInterrupt);
  Install(SIGPIPE, SIG_IGN);
}

Interrupts::~Interrupts() {
  LetHangUpEnd();
  Install(SIGINT, SIG_DFL);
  Install(SIGTERM, SIG_DFL);
  for (int& end : signal_pipe) {
    close(end);
    end = -1;
  }
}

void Interrupts::HearHangUp() {
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) Install(SIGHUP, OnInterrupt);
}

void Interrupts::LetHangUpEnd() {
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler == OnInterrupt) Install(SIGHUP, SIG_DFL);
}

int Interrupts::fd() const { return signal_pipe[0]; }

int Interrupts::Take() {
  char marks[16];
  const ssize_t got = read(signal_pipe[0], marks, sizeof marks);
  return got > 0 ? static_cast<int>(got) : 0;
}

}  // namespace tfdist::cli
