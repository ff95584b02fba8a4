// A key that signs once, and that nobody has afterwards.
#pragma once

#include <string>
#include <string_view>

namespace tfdist::ssh {

// Both as they travel. Source: RFC 8709.
struct SignedOnce {
  std::string key;
  std::string signature;
};

// With a new ed25519 key. Throws Error(kAuth).
SignedOnce SignWithPassingKey(std::string_view data);

}  // namespace tfdist::ssh
