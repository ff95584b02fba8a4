// A CURVE key pair, made on the host that uses it. The secret half stays in its file (0600).
#pragma once

#include <filesystem>
#include <string>

namespace tfdist::agent {

// Both as Z85 text, 40 characters.
struct CurveKeys {
  std::string public_key;
  std::string secret_key;
};

CurveKeys MakeCurveKeys();
void WriteCurveKeys(const std::filesystem::path& path, const CurveKeys& keys);
// Throws Error(kFiles).
CurveKeys ReadCurveKeys(const std::filesystem::path& path);

// The 32 bytes of a Z85 key; throws Error(kControl) when it is not one.
std::string DecodeCurveKey(const std::string& z85);

}  // namespace tfdist::agent
