// A public key as it travels ("blob", RFC 4253 6.6), and how people see it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tfdist::ssh {

// "ssh-ed25519"; empty when the blob is none.
std::string KeyType(std::string_view blob);

// Of an RSA key's modulus; 0: it is of another type.
int RsaBits(std::string_view blob);

std::string Base64(std::string_view bytes);
// nullopt when `text` is not base64 with its padding.
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace tfdist::ssh
