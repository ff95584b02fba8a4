// The plain lines of a known_hosts file that are about a name. It is read here because one ssh-keygen for each host and file was
// most of what a start cost the client. Names match as in OpenSSH (hostfile.c hostkeys_foreach); a line of any other form
// leads to ssh(1). Tests compare with the ssh-keygen of the machine.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::ssh {

struct KnownKey {
  std::string type;  // one that libssh2 has
  std::string blob;  // decoded
};

// The lines that are about one name.
struct KnownKeys {
  std::vector<KnownKey> keys;
  // "FILE line 3": one that only ssh understands: it has a marker, another type, or nothing that is a key.
  std::string odd;

  [[nodiscard]] bool empty() const { return keys.empty() && odd.empty(); }
  [[nodiscard]] bool Have(std::string_view blob) const;
  void Add(KnownKeys more);
};

// Never changes once it is made, so any thread may ask it.
class KnownHostsFile {
 public:
  // `path` is for messages alone.
  KnownHostsFile(std::string path, std::string text);
  KnownHostsFile(const KnownHostsFile&) = delete;
  KnownHostsFile& operator=(const KnownHostsFile&) = delete;

  // `name` as known_hosts writes it: "10.0.0.1", "[10.0.0.1]:2200".
  [[nodiscard]] KnownKeys Find(const std::string& name) const;

 private:
  struct Line {
    bool is_marked = false;  // @revoked and the like
    int number = 0;
    std::string_view names;
    std::string_view type;
    std::string_view key;  // base64
  };
  const std::string path_;
  const std::string text_;  // what the lines are views of
  std::vector<Line> lines_;
};

// The content of `path` as it is now: read again only when the file has changed since. A file that is not there or cannot
// be read has no lines, as for ssh. Throws Error(kHostKey) when it is longer than 64 MiB. For any thread.
std::shared_ptr<const KnownHostsFile> ReadKnownHosts(const std::string& path);

}  // namespace tfdist::ssh
