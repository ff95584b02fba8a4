// How two agents of one check know each other over a bare TCP connection:
//
//   dialer -> listener   nonce (16 bytes), proof (32) of the nonce and the port
//   listener -> dialer   slot (4, big-endian), proof (32) of the nonce, the port and the slot
//
// A proof is libsodium's crypto_auth (HMAC-SHA512-256) under the key of this check, which both have
// got over SSH. A stranger hears nothing, and cannot answer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tfdist::agent {

inline constexpr size_t kQuestionBytes = 16 + 32;
inline constexpr size_t kAnswerBytes = 4 + 32;

class Handshake {
 public:
  // Throws ProtocolError unless the key has 32 bytes.
  explicit Handshake(std::string key);

  // With a new nonce each time.
  [[nodiscard]] std::string Question(int port) const;
  // The answer of `slot`; nullopt when the question is none of this check.
  [[nodiscard]] std::optional<std::string> Answer(std::string_view question, int port,
                                                  int slot) const;
  // Which slot has answered; nullopt when it is none of this check.
  [[nodiscard]] std::optional<int> Slot(std::string_view answer, std::string_view question,
                                        int port) const;

 private:
  [[nodiscard]] std::string Proof(const std::string& of) const;
  [[nodiscard]] bool IsProof(std::string_view proof, const std::string& of) const;

  std::string key_;
};

}  // namespace tfdist::agent
