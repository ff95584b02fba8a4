// Ctrl-C as something to poll, while an object of this class lives.
#pragma once

namespace tfdist::cli {

// One at a time. SIGINT and SIGTERM make `fd()` readable; one that follows another within 100 ms is the same: timeout(1) signals
// its child and then its group, and wrappers pass Ctrl-C on that the terminal has sent to all. SIGPIPE is ignored (write(2) says EPIPE).
// One that was ignored when this process began stays ignored, as ssh(1) and make(1) have it: a script's `&` does that to SIGINT.
// SIGHUP keeps its default: the CLI ends, the job goes on. Unless HearHangUp: what is half done does
// not go on by itself.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // From now on SIGHUP is as SIGINT, unless this process was started with it ignored (nohup).
  void HearHangUp();
  // It has its default again, also for one that was heard before: this process ends by it here, unless
  // SIGINT or SIGTERM has come as well.
  void LetHangUpEnd();

  [[nodiscard]] int fd() const;
  // How many came since the last call.
  int Take();

 private:
  int hang_ups_ = 0;  // taken
  int others_ = 0;
};

}  // namespace tfdist::cli
