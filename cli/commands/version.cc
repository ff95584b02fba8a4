#include <fmt/format.h>
#include <openssl/crypto.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/exit_codes.h"
#include "cli/commands/print_json.h"
#include "cli/link/embedded_agent.h"
#include "cli/stream/print.h"
#include "library_versions.h"

namespace tfdist::cli {

namespace {

// Of lines "name version".
nlohmann::json LibrariesJson() {
  nlohmann::json libraries = nlohmann::json::object();
  std::string_view lines = kLibraryVersions;
  while (!lines.empty()) {
    std::string_view version = TakeUpTo('\n', lines);
    const std::string name(TakeUpTo(' ', version));
    libraries[name] = version;
  }
  return libraries;
}

}  // namespace

std::string VersionLine() {
  return fmt::format("tfdist {} (agent {:.12})", TFDIST_VERSION, GetEmbeddedAgent().sha256_hex);
}

int VersionCommand(const VersionArguments& arguments) {
  if (arguments.json) {
    PrintJson({{"version", TFDIST_VERSION},
               {"agent_sha256", GetEmbeddedAgent().sha256_hex},
               {"openssl", OpenSSL_version(OPENSSL_VERSION)},
               {"libraries", LibrariesJson()}});
    return kExitSuccess;
  }
  Print("{}\n", VersionLine());
  if (arguments.verbose) PrintLines(std::string(kLibraryVersions) + "\n");
  return kExitSuccess;
}

}  // namespace tfdist::cli
