// A known_hosts file, which anybody may have written: a key is known only if a line without a marker holds it and no line
// revokes it.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <string>

#include "cli/ssh/keys/known_hosts.h"

namespace tfdist::ssh {
namespace {

using Kind = Verdict::Kind;
using Marker = KnownKey::Marker;

const std::string kUnseenBlob = "a blob that no line holds";

bool Holds(const KnownKeys& keys, Marker marker, const std::string& blob) {
  return std::ranges::any_of(
      keys, [&](const KnownKey& key) { return key.marker == marker && key.blob == blob; });
}

Kind Expected(const KnownKeys& keys, const std::string& blob) {
  if (Holds(keys, Marker::kRevoked, blob)) return Kind::kRevoked;
  if (Holds(keys, Marker::kNone, blob)) return Kind::kKnown;
  const bool named =
      std::ranges::any_of(keys, [](const KnownKey& key) { return key.marker == Marker::kNone; });
  return named ? Kind::kChanged : Kind::kUnknown;
}

void Check(const KnownKeys& keys, const std::string& blob) {
  const Verdict verdict = Judge(keys, blob);
  assert(verdict.kind == Expected(keys, blob));
  assert((verdict.line == nullptr) == (verdict.kind == Kind::kUnknown));
  if (verdict.line == nullptr) return;
  assert(verdict.line >= keys.data() && verdict.line < keys.data() + keys.size());
  assert((verdict.line->blob == blob) == (verdict.kind != Kind::kChanged));
}

void Run(std::string_view text) {
  const KnownHostsFile file("known_hosts", std::string(text));
  const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
  for (const char* name : {"gpu7", "[gpu7]:2200"}) {
    const KnownKeys keys = file.Find(name);
    assert(keys.size() <= static_cast<size_t>(lines));
    for (const KnownKey& key : keys) {
      assert(key.line >= 1 && key.line <= lines);
      Check(keys, key.blob);
    }
    Check(keys, kUnseenBlob);
  }
}

}  // namespace
}  // namespace tfdist::ssh

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::ssh::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
