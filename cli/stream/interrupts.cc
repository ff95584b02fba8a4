#include "cli/stream/interrupts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>

#include "base/error.h"

namespace tfdist::cli {
namespace {

// A signal handler can reach only what is static.
int signal_pipe[2] = {-1, -1};

void Put(int signal) {
  const char mark = static_cast<char>(signal);
  [[maybe_unused]] const ssize_t put = write(signal_pipe[1], &mark, 1);
}

int64_t NowMs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

constexpr int64_t kSameMs = 100;
std::atomic<int64_t> heard_ms = -kSameMs;  // SIGINT or SIGTERM

bool IsTheSame() {
  const int64_t now = NowMs();
  if (now - heard_ms < kSameMs) return true;
  heard_ms = now;
  return false;
}

extern "C" void OnInterrupt(int signal) {
  const int saved = errno;
  if (signal == SIGHUP || !IsTheSame()) Put(signal);
  errno = saved;
}

void Install(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

// One that was ignored when this process began stays so: whoever started it meant that (nohup, `&` in a script).
void Hear(int signal) {
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler != SIG_IGN) Install(signal, OnInterrupt);
}

void Restore(int signal) {
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler == OnInterrupt) Install(signal, SIG_DFL);
}

}  // namespace

Interrupts::Interrupts() {
  if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw Error(Phase::kInternal, WithErrno("pipe", errno));
  }
  heard_ms = -kSameMs;
  Hear(SIGINT);
  Hear(SIGTERM);
  Install(SIGPIPE, SIG_IGN);
}

Interrupts::~Interrupts() {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) Restore(signal);
  for (int& end : signal_pipe) {
    close(end);
    end = -1;
  }
}

void Interrupts::HearHangUp() { Hear(SIGHUP); }

void Interrupts::LetHangUpEnd() {
  Restore(SIGHUP);
  const int others_before = others_;
  (void)Take();
  // Those are for the next call of Take.
  for (int i = others_before; i < others_; ++i) Put(SIGINT);
  if (hang_ups_ > 0 && others_ == 0) (void)raise(SIGHUP);
  others_ = others_before;
}

int Interrupts::fd() const { return signal_pipe[0]; }

int Interrupts::Take() {
  char marks[16];
  const ssize_t got = read(signal_pipe[0], marks, sizeof marks);
  if (got <= 0) return 0;
  const auto hang_ups = static_cast<int>(std::count(marks, marks + got, static_cast<char>(SIGHUP)));
  hang_ups_ += hang_ups;
  others_ += static_cast<int>(got) - hang_ups;
  return static_cast<int>(got);
}

}  // namespace tfdist::cli
