// A network between a worker and a server of this machine: a relay with a fixed rate in each
// direction, independent of the other direction.
#pragma once

#include <cstddef>
#include <string>

namespace tfdist::runtime::bench {

// Where its near end is, with the port of its far end. Another address than the worker's own: to a
// client that is another host.
inline constexpr char kLinkHost[] = "127.0.0.3";

// Relays to `port` of 127.0.0.1 from threads of its own until the process ends. Throws
// std::runtime_error.
void StartSlowLink(int port, size_t bytes_per_second);

}  // namespace tfdist::runtime::bench
