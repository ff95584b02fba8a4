#include "base/hash.h"

#include <sodium.h>

#include "base/sha256_blocks.h"

namespace tfdist {
namespace {

std::string ToHex(const unsigned char* bytes, size_t count) {
  std::string hex(count * 2 + 1, '\0');
  sodium_bin2hex(hex.data(), hex.size(), bytes, count);
  hex.pop_back();
  return hex;
}

}  // namespace

struct Sha256::State {
  crypto_hash_sha256_state hash;
};

Sha256::Sha256() : state_(std::make_unique<State>()) { crypto_hash_sha256_init(&state_->hash); }
Sha256::~Sha256() = default;

// libsodium keeps the part of a block that is not full yet; whole blocks may be taken in past it.
void Sha256::Update(std::string_view bytes) {
  crypto_hash_sha256_state& hash = state_->hash;
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t size = bytes.size();
  if (HasSha256Instructions() && size >= 2 * kSha256BlockBytes) {
    const size_t kept = (hash.count / 8) % kSha256BlockBytes;
    const size_t first = (kSha256BlockBytes - kept) % kSha256BlockBytes;
    crypto_hash_sha256_update(&hash, data, first);
    const size_t blocks = (size - first) / kSha256BlockBytes;
    Sha256Blocks(hash.state, data + first, blocks);
    hash.count += uint64_t{blocks} * kSha256BlockBytes * 8;  // in bits
    data += first + blocks * kSha256BlockBytes;
    size -= first + blocks * kSha256BlockBytes;
  }
  crypto_hash_sha256_update(&hash, data, size);
}

std::string Sha256::FinishHex() {
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256_final(&state_->hash, digest);
  return ToHex(digest, sizeof digest);
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.FinishHex();
}

std::string RandomHex(size_t count) {
  std::string bytes(count, '\0');
  randombytes_buf(bytes.data(), bytes.size());
  return ToHex(reinterpret_cast<const unsigned char*>(bytes.data()), count);
}

}  // namespace tfdist
