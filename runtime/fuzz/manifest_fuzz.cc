// A checkpoint's manifest: accepted is only what would be written, to the last bit. Each input is
// taken as it is, and, where it is JSON, with the right checksum and in the form that is written.
#include <cassert>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/checkpoint/manifest.h"
#include "runtime/common/crc32c.h"

namespace tfdist::runtime {
namespace {

using nlohmann::json;

void Run(const std::string& text) {
  const auto manifest = DecodeManifest(text);
  if (!manifest) return;
  assert(EncodeManifest(*manifest) == text);
  for (size_t i = 0; i < manifest->shards.size(); ++i) {
    assert(!ShardName(i, manifest->shards.size()).empty());
  }
}

std::string Sealed(const std::string& text) {
  json content = json::parse(text, nullptr, false);
  if (!content.is_object()) return text;
  content.erase("crc32c");
  constexpr auto kReplace = json::error_handler_t::replace;
  content["crc32c"] = Crc32cText(Crc32c(content.dump(-1, ' ', false, kReplace)));
  return content.dump(2, ' ', false, kReplace) + "\n";
}

}  // namespace
}  // namespace tfdist::runtime

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  tfdist::runtime::Run(text);
  tfdist::runtime::Run(tfdist::runtime::Sealed(text));
  return 0;
}
