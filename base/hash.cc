#include "base/hash.h"

#include <sodium.h>

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

void Sha256::Update(std::string_view bytes) {
  crypto_hash_sha256_update(&state_->hash, reinterpret_cast<const unsigned char*>(bytes.data()),
                            bytes.size());
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
