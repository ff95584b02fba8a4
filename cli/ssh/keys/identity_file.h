// A key file of the user: what can be read without its passphrase. libssh2 reads the secret part.
#pragma once

#include <optional>
#include <string>

namespace tfdist::ssh {

struct IdentityFile {
  std::string path;
  std::string public_blob;  // empty when neither the file nor PATH.pub tells
  bool encrypted = false;
  bool is_private = true;    // false: a public key, or nothing of which a private key is known
  bool unprotected = false;  // others may read it: ssh does not use such a key, nor do we
  std::string odd;  // why it is for ssh ("IdentityFile names a public key"); empty: it is not
};

// nullopt when there is neither such a file nor PATH.pub, or they cannot be read.
std::optional<IdentityFile> LookAtIdentityFile(const std::string& path);

}  // namespace tfdist::ssh
