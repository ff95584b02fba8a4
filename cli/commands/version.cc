#include <fmt/format.h>
#include <openssl/crypto.h>

#include <string>

#include "cli/commands/commands.h"
#include "cli/commands/exit_codes.h"
#include "cli/link/embedded_agent.h"
#include "cli/stream/print.h"
#include "library_versions.h"

namespace tfdist::cli {

std::string VersionLine() {
  return fmt::format("tfdist {} (agent {:.12})", TFDIST_VERSION, GetEmbeddedAgent().sha256_hex);
}

int VersionCommand(const VersionArguments& arguments) {
  Print("{}\n", VersionLine());
  if (arguments.verbose) {
    // OpenSSL is the machine's own, so its updates need no new tfdist.
    PrintLines(std::string(kLibraryVersions) + "\n");
    Print("this machine's {}\n", OpenSSL_version(OPENSSL_VERSION));
  }
  return kExitSuccess;
}

}  // namespace tfdist::cli
