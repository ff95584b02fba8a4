// SHA-256 (libsodium): names of content.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tfdist {

// Incremental; one object, one hash.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void Update(std::string_view bytes);
  // 64 lower-case hexadecimal digits. Call once, at the end.
  [[nodiscard]] std::string FinishHex();

 private:
  struct State;  // keeps <sodium.h> out of every file that includes this one
  std::unique_ptr<State> state_;
};

std::string Sha256Hex(std::string_view bytes);

// `count` random bytes as lower-case hexadecimal: for ids, nonces and secrets.
std::string RandomHex(size_t count);

}  // namespace tfdist
