#include "agent/check/handshake.h"

#include <fmt/format.h>
#include <sodium.h>

#include <cstdint>
#include <utility>

#include "base/failures.h"

namespace tfdist::agent {
namespace {

constexpr size_t kNonceBytes = 16;
constexpr size_t kSlotBytes = 4;
constexpr size_t kProofBytes = crypto_auth_BYTES;
static_assert(kQuestionBytes == kNonceBytes + kProofBytes);
static_assert(kAnswerBytes == kSlotBytes + kProofBytes);

const unsigned char* Raw(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// The direction is part of what is proved: nobody can send a question back as its answer.
std::string QuestionText(std::string_view nonce, int port) {
  return fmt::format("question {} {}", port, nonce);
}

std::string AnswerText(std::string_view nonce, int port, std::string_view slot) {
  return fmt::format("answer {} {}{}", port, slot, nonce);
}

std::string SlotBytes(int slot) {
  const auto number = static_cast<uint32_t>(slot);
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

int SlotOf(std::string_view bytes) {
  uint32_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return static_cast<int>(number);
}

}  // namespace

Handshake::Handshake(std::string key) : key_(std::move(key)) {
  if (key_.size() != crypto_auth_KEYBYTES) {
    throw ProtocolError(Phase::kControl, "the key of a check has 32 bytes");
  }
  if (sodium_init() < 0) throw Bug("libsodium does not start");
}

std::string Handshake::Question(int port) const {
  std::string nonce(kNonceBytes, '\0');
  randombytes_buf(nonce.data(), nonce.size());
  return nonce + Proof(QuestionText(nonce, port));
}

std::optional<std::string> Handshake::Answer(std::string_view question, int port, int slot) const {
  if (question.size() != kQuestionBytes) return std::nullopt;
  const std::string_view nonce = question.substr(0, kNonceBytes);
  if (!IsProof(question.substr(kNonceBytes), QuestionText(nonce, port))) return std::nullopt;
  const std::string number = SlotBytes(slot);
  return number + Proof(AnswerText(nonce, port, number));
}

std::optional<int> Handshake::Slot(std::string_view answer, std::string_view question,
                                   int port) const {
  if (answer.size() != kAnswerBytes || question.size() != kQuestionBytes) return std::nullopt;
  const std::string_view number = answer.substr(0, kSlotBytes);
  const std::string text = AnswerText(question.substr(0, kNonceBytes), port, number);
  if (!IsProof(answer.substr(kSlotBytes), text)) return std::nullopt;
  return SlotOf(number);
}

std::string Handshake::Proof(const std::string& of) const {
  std::string proof(kProofBytes, '\0');
  crypto_auth(reinterpret_cast<unsigned char*>(proof.data()), Raw(of), of.size(), Raw(key_));
  return proof;
}

bool Handshake::IsProof(std::string_view proof, const std::string& of) const {
  return crypto_auth_verify(Raw(proof), Raw(of), of.size(), Raw(key_)) == 0;
}

}  // namespace tfdist::agent
