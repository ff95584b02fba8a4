#include "agent/process/wire.h"

#include <algorithm>
#include <cstring>

namespace tfdist::agent {
namespace {

template <size_t kSize>
void CopyName(char (&to)[kSize], std::string_view name) {
  std::memcpy(to, name.data(), std::min(name.size(), kSize - 1));
}

template <size_t kSize>
std::string Name(const char (&from)[kSize]) {
  return {from, strnlen(from, kSize)};
}

}  // namespace

WireMessage::WireMessage(uint32_t message_kind, int32_t message_value, std::string_view task_name,
                         std::string_view run_name)
    : kind(message_kind), value(message_value) {
  CopyName(task, task_name);
  CopyName(run, run_name);
}

std::string WireMessage::Task() const { return Name(task); }
std::string WireMessage::Run() const { return Name(run); }

}  // namespace tfdist::agent
