// A program on this machine that is spoken with: /bin/sh for a local host, ssh(1) for another one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/channel/byte_channel.h"

namespace tfdist::cli {

// Runs argv[0] (looked up in PATH) as Child does. When the channel is destroyed, the program's stdin ends; nobody kills
// it. `kept` lives until the program has ended. Throws Error(kExec) when it cannot be executed.
std::unique_ptr<ByteChannel> OpenChildChannel(const std::vector<std::string>& argv,
                                              std::shared_ptr<const void> kept = nullptr);

}  // namespace tfdist::cli
