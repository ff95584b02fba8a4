// What the role `start` tells the CLI of its housekeeping, between the two hellos.
#pragma once

#include <string_view>

namespace tfdist::protocol::type {

// {folders: [path]}: of finished jobs, which retention has removed. Not sent where there are none.
inline constexpr std::string_view kRemoved = "removed";

}  // namespace tfdist::protocol::type
