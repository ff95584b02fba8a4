// The agents that this tfdist brings to hosts, one for each kind of machine. They are part of the executable, so that there is no
// file beside it to lose. The build makes them: cmake/embed.cmake.
#ifndef TFDIST_CLI_LINK_EMBEDDED_AGENT_H_
#define TFDIST_CLI_LINK_EMBEDDED_AGENT_H_

#include <cstddef>
#include <span>
#include <string_view>

namespace tfdist::cli {

// Views into the executable itself: valid as long as the process.
struct EmbeddedAgent {
  std::span<const std::byte> gzip;  // the executable, in gzip's format
  std::span<const std::byte> xz;    // and in xz's; empty in builds for a debugger
  std::string_view sha256_hex;      // of the executable before compression: its name on a host
  std::size_t size_bytes;           // of the executable before compression
  std::string_view machine;         // that it runs on, as `uname -m` prints it
};

// That for x86_64 first, then, where it was built, that for aarch64.
std::span<const EmbeddedAgent> GetEmbeddedAgents();

}  // namespace tfdist::cli

#endif  // TFDIST_CLI_LINK_EMBEDDED_AGENT_H_
