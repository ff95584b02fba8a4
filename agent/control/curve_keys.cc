#include "agent/control/curve_keys.h"

#include <zmq.h>

#include <array>

#include "base/error.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

constexpr size_t kTextBytes = 40;
constexpr size_t kKeyBytes = 32;

}  // namespace

CurveKeys MakeCurveKeys() {
  std::array<char, kTextBytes + 1> public_key{};
  std::array<char, kTextBytes + 1> secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) {
    throw Error(Phase::kInternal, "libzmq was built without CURVE");
  }
  return {public_key.data(), secret_key.data()};
}

void WriteCurveKeys(const std::filesystem::path& path, const CurveKeys& keys) {
  ReplaceFile(path, keys.public_key + keys.secret_key, 0600);
}

CurveKeys ReadCurveKeys(const std::filesystem::path& path) {
  const auto text = ReadOwnFileIfExists(path, 2 * kTextBytes);
  if (!text || text->size() != 2 * kTextBytes) {
    throw Error(Phase::kFiles, path.string() + " is missing or damaged");
  }
  return {text->substr(0, kTextBytes), text->substr(kTextBytes)};
}

std::string DecodeCurveKey(const std::string& z85) {
  std::array<uint8_t, kKeyBytes> key{};
  // zmq_z85_decode wants a length that divides by 5 and writes 4/5 of it.
  if (z85.size() != kTextBytes || zmq_z85_decode(key.data(), z85.c_str()) == nullptr) {
    throw Error(Phase::kControl, "a public key is not 40 characters of Z85");
  }
  return {key.begin(), key.end()};
}

}  // namespace tfdist::agent
