// The one shape of what goes between agent, keeper and holders: a word, a number, and the run it is
// about. Of fixed size and below PIPE_BUF: written at once or not at all, read whole or not at all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tfdist::agent {

struct WireMessage {
  uint32_t kind = 0;
  int32_t value = 0;
  char task[256] = {};  // NAME_MAX and the NUL
  char run[56] = {};

  WireMessage() = default;
  // A longer name, which no folder can have, is cut.
  WireMessage(uint32_t kind, int32_t value, std::string_view task, std::string_view run);

  [[nodiscard]] std::string Task() const;
  [[nodiscard]] std::string Run() const;
};
static_assert(sizeof(WireMessage) == 320);

}  // namespace tfdist::agent
