#include "agent/slot/description.h"

#include "base/error.h"
#include "base/file.h"
#include "wire/frame.h"

namespace tfdist::agent {

protocol::HostDescription ReadDescription(const SlotFolder& folder) {
  try {
    const auto bytes = ReadOwnFileIfExists(folder.description(), protocol::kMaxMessageBytes);
    if (!bytes) return {};
    return protocol::Body<protocol::HostDescription>(protocol::Decode(*bytes));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace tfdist::agent
