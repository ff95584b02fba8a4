// The agent that this tfdist brings to hosts. It is part of the executable, so that there is no
// file beside it to lose. The build makes it: cmake/embed.cmake.
#ifndef TFDIST_CLI_LINK_EMBEDDED_AGENT_H_
#define TFDIST_CLI_LINK_EMBEDDED_AGENT_H_

#include <cstddef>
#include <span>
#include <string_view>

namespace tfdist::cli {

// Views into the executable itself: valid as long as the process.
struct EmbeddedAgent {
  std::span<const std::byte> gzip;  // the executable, in gzip's format
  std::string_view sha256_hex;      // of the executable before compression: its name on a host
  std::size_t size_bytes;           // of the executable before compression
};

const EmbeddedAgent& GetEmbeddedAgent();

}  // namespace tfdist::cli

#endif  // TFDIST_CLI_LINK_EMBEDDED_AGENT_H_
