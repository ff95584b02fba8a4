// A channel to a host that may have been hung since the login: others are asked whether it is off.
#pragma once

#include <functional>
#include <memory>

#include "cli/channel/byte_channel.h"

namespace tfdist::cli {

// Until `*has_answered`, Read asks `is_off` (as ssh::Target's) after 5 s without the answer, after 15, 45 and so on, and throws
// Unreachable where the host is.
std::unique_ptr<ByteChannel> AskingChannel(std::unique_ptr<ByteChannel> channel,
                                           std::function<bool()> is_off,
                                           std::shared_ptr<const bool> has_answered);

}  // namespace tfdist::cli
