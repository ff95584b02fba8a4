// Files that open doors: private keys, tokens, passwords. They have no business in a work folder that is sent to many hosts.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::cli {

// Whether programs keep credentials in a file or folder that ends in this path: ".ssh", "a/.aws", ".netrc".
bool IsPlaceOfCredentials(std::string_view path);

// Whether it is a private key, by its content. Only a small file is looked into that is its owner's alone, or is called like a
// key. Reads it.
bool IsPrivateKey(const std::filesystem::path& file, const struct stat& info);

// The variables that a file like .env sets, and whose names say that they are secret: WANDB_API_KEY.
std::vector<std::string> SecretsIn(const std::filesystem::path& file);

}  // namespace tfdist::cli
