#include <fmt/format.h>
#include <openssl/crypto.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/link/embedded_agent.h"
#include "cli/show/print_json.h"
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
  std::string agents;
  for (const EmbeddedAgent& agent : GetEmbeddedAgents()) {
    agents += fmt::format("{}agent {:.12} for {}", agents.empty() ? "" : ", ", agent.sha256_hex,
                          agent.machine);
  }
  return fmt::format("tfdist {} ({})", TFDIST_VERSION, agents);
}

int VersionCommand(const VersionArguments& arguments) {
  if (arguments.json) {
    nlohmann::json agents = nlohmann::json::object();
    for (const EmbeddedAgent& agent : GetEmbeddedAgents()) {
      agents[std::string(agent.machine)] = agent.sha256_hex;
    }
    PrintJson({{"version", TFDIST_VERSION},
               {"agent_sha256", GetEmbeddedAgents().front().sha256_hex},
               {"agents", agents},
               {"openssl", OpenSSL_version(OPENSSL_VERSION)},
               {"libraries", LibrariesJson()}});
    return kExitSuccess;
  }
  Print("{}\n", VersionLine());
  if (arguments.verbose) PrintLines(std::string(kLibraryVersions) + "\n");
  return kExitSuccess;
}

}  // namespace tfdist::cli
