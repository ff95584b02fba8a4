// A private key file of the user: what can be read without its passphrase. libssh2 reads the secret
// part.
#pragma once

#include <optional>
#include <string>

namespace tfdist::ssh {

struct IdentityFile {
  std::string path;
  std::string public_blob;  // empty when neither the file nor PATH.pub tells
  bool encrypted = false;
  bool unprotected = false;  // others may read it: ssh does not use such a key, nor do we
};

// nullopt when there is no such file, or it cannot be read.
std::optional<IdentityFile> LookAtIdentityFile(const std::string& path);

}  // namespace tfdist::ssh
