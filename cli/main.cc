#include <sys/prctl.h>

#include "cli/commands/command_line.h"

int main(int argc, char** argv) {
  // Keys lie in its memory for a moment: no core file. (Not RLIMIT_CORE, which tasks of this machine
  // would have too; this flag ends with execve.)
  prctl(PR_SET_DUMPABLE, 0);
  return tfdist::cli::Main(argc, argv);
}
