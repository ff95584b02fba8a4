#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

#include "cli/command_line/command_line.h"

namespace {

// What is opened next would have the number of a standard stream that our caller has closed, and what is printed would
// go there. For reading alone: whatever is written is still refused, and so told as not written.
void TakeClosedStreams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) < 0)
      (void)open("/dev/null", O_RDONLY);  // NOLINT(android-cloexec-open): children inherit it
  }
}

}  // namespace

int main(int argc, char** argv) {
  TakeClosedStreams();
  // Keys lie in its memory for a moment: no core file. (Not RLIMIT_CORE, which tasks of this machine
  // would have too; this flag ends with execve.)
  prctl(PR_SET_DUMPABLE, 0);
  // What exceeds the limit on the size of files is an error with a name, as a full disk is. What we start has the default.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  // Some CI runners start programs with SIGCHLD ignored: no program that we start could be waited for.
  (void)std::signal(SIGCHLD, SIG_DFL);
  // The machine's openssl.cnf may name modules of its own OpenSSL, which have no place in the one that is linked in.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  return tfdist::cli::Main(argc, argv);
}
