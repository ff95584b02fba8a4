// What ssh-agent answers, how a command on a host ends, and the file of known hashes.
//
// Input: which function (first byte), then the text.
#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/failures.h"
#include "cli/deploy/hash_cache.h"
#include "cli/link/host_command.h"
#include "cli/ssh/keys/ssh_agent.h"

namespace tfdist::cli {
namespace {

void TryKeys(std::string_view text) {
  const auto keys = ssh::KeysInAnswer(text);
  if (!keys) return;
  size_t bytes = 0;
  for (const ssh::AgentKey& key : *keys) bytes += key.blob.size();
  assert(bytes <= text.size());
}

void TrySignature(std::string_view text) {
  const ssh::Signature signature = ssh::SignatureInAnswer(text, "ssh-ed25519");
  assert(signature.bytes.empty() || signature.kind == ssh::Signature::Kind::kMade);
  assert(text.find(signature.bytes) != std::string_view::npos);
}

void TryEnd(std::string_view text) {
  try {
    const HostCommandEnd end = ParseCommandEnd(text);
    assert(end.status >= 0 && end.status <= 255);
    assert(end.left.find('|') == std::string::npos);
    assert(end.left.size() + end.may_be_left.size() < text.size());
  } catch (const ProtocolError&) {
  }
}

void TryHashes(std::string_view text) {
  const HashCache cache = DecodeHashCache(text);
  assert(DecodeHashCache(EncodeHashCache(cache)) == cache);
}

void Run(int function, std::string_view text) {
  constexpr int kFunctions = 4;
  switch (function % kFunctions) {
    case 0:
      return TryKeys(text);
    case 1:
      return TrySignature(text);
    case 2:
      return TryEnd(text);
    default:
      return TryHashes(text);
  }
}

}  // namespace
}  // namespace tfdist::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  tfdist::cli::Run(data[0], {reinterpret_cast<const char*>(data + 1), size - 1});
  return 0;
}
