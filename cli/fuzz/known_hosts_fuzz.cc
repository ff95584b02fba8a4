// A known_hosts file, which anybody may have written: a key is known only if a line without a marker holds it.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <string>

#include "cli/ssh/config/algorithms.h"
#include "cli/ssh/keys/known_hosts_file.h"
#include "cli/ssh/keys/public_key.h"

namespace tfdist::ssh {
namespace {

void Run(std::string_view text) {
  const KnownHostsFile file("known_hosts", std::string(text));
  const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
  for (const char* name : {"gpu7", "[gpu7]:2200"}) {
    const KnownKeys found = file.Find(name);
    assert(found.keys.size() <= static_cast<size_t>(lines));
    for (const KnownKey& key : found.keys) {
      assert(IsKeyType(key.type) && KeyType(key.blob) == key.type);
      assert(found.Have(key.blob) && text.find(Base64(key.blob)) != text.npos);
    }
    assert(!found.Have("a blob that no line holds"));
  }
}

}  // namespace
}  // namespace tfdist::ssh

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::ssh::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
