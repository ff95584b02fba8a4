// CURVE keys: every task's key pair follows from the job's secret, so that no key has to be carried
// around. A process that has the secret has every key: it is a 0600 file, named by TFDIST_SECRET_FILE.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tf_config.h"

namespace tfdist::runtime {

inline constexpr size_t kKeyBytes = 32;
using PublicKey = std::array<unsigned char, kKeyBytes>;

// 32 bytes that are wiped when they go.
class SecretBytes {
 public:
  SecretBytes() = default;
  SecretBytes(const SecretBytes&) = default;
  SecretBytes& operator=(const SecretBytes&) = default;
  ~SecretBytes();

  [[nodiscard]] const unsigned char* data() const { return bytes_.data(); }
  [[nodiscard]] unsigned char* data() { return bytes_.data(); }

 private:
  std::array<unsigned char, kKeyBytes> bytes_{};
};

class JobSecret {
 public:
  // 64 hexadecimal digits, a newline at most behind them. Throws Error(kConfig) when the file is
  // missing, can be read by others than its owner, or holds anything else; never shows its content.
  static JobSecret FromFile(const std::filesystem::path& path);
  static JobSecret FromHex(std::string_view hex);

  [[nodiscard]] const SecretBytes& bytes() const { return bytes_; }

 private:
  SecretBytes bytes_;
};

struct KeyPair {
  PublicKey public_key{};
  SecretBytes secret_key;
};

// X25519 pair of `task`: the same on every host that has the same secret.
KeyPair DeriveKeyPair(const JobSecret& secret, const TaskId& task);

// What the socket of a server needs: its own pair, and who may enter, by public key.
struct ServerKeys {
  KeyPair own;
  std::map<PublicKey, std::string> allowed;  // -> task, "worker:1"
};
ServerKeys KeysOfServer(const JobSecret& secret, const TaskId& server,
                        const std::vector<TaskId>& trainers);

// What the socket of a trainer needs to reach one server.
struct ClientKeys {
  KeyPair own;
  PublicKey server{};
};
ClientKeys KeysOfClient(const JobSecret& secret, const TaskId& trainer, const TaskId& server);

}  // namespace tfdist::runtime
