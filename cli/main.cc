#include <openssl/crypto.h>
#include <sys/prctl.h>

#include <csignal>

#include "cli/commands/command_line.h"

int main(int argc, char** argv) {
  // Keys lie in its memory for a moment: no core file. (Not RLIMIT_CORE, which tasks of this machine
  // would have too; this flag ends with execve.)
  prctl(PR_SET_DUMPABLE, 0);
  // Some CI runners start programs with SIGCHLD ignored: no program that we start could be waited for.
  (void)std::signal(SIGCHLD, SIG_DFL);
  // The machine's openssl.cnf may name modules of its own OpenSSL, which have no place in the one that is linked in.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  return tfdist::cli::Main(argc, argv);
}
