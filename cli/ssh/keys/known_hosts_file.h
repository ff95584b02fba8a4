// The lines of a known_hosts file that are about a name: the ones that `ssh-keygen -F NAME` finds. It is read here because
// one ssh-keygen for each host and file was most of what a start cost the client. The rules are those of OpenSSH 9.2
// and 10.0, hostfile.c hostkeys_foreach; tests compare with the ssh-keygen of the machine.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::ssh {

struct KnownKey {
  enum class Marker { kNone, kRevoked, kAuthority };
  Marker marker = Marker::kNone;
  std::string file;
  int line = 0;
  std::string type;
  std::string blob;  // decoded
};

// The lines that are about one name.
using KnownKeys = std::vector<KnownKey>;

// Never changes once it is made, so any thread may ask it.
class KnownHostsFile {
 public:
  // `path` is for messages alone.
  KnownHostsFile(std::string path, std::string text);
  KnownHostsFile(const KnownHostsFile&) = delete;
  KnownHostsFile& operator=(const KnownHostsFile&) = delete;

  // `name` as known_hosts writes it: "10.0.0.1", "[10.0.0.1]:2200". Lines whose key is no base64 are left out, as ssh
  // cannot use them either.
  [[nodiscard]] KnownKeys Find(const std::string& name) const;

 private:
  struct Line {
    KnownKey::Marker marker = KnownKey::Marker::kNone;
    int number = 0;
    std::string_view names;
    std::string_view type;
    std::string_view key;  // base64
  };
  static bool Parse(std::string_view text, Line& line);

  const std::string path_;
  const std::string text_;  // what the lines are views of
  std::vector<Line> lines_;
};

// The content of `path` as it is now: read again only when the file has changed since. A file that is not there or cannot
// be read has no lines, as for ssh. Throws Error(kHostKey) when it is longer than 64 MiB. For any thread.
std::shared_ptr<const KnownHostsFile> ReadKnownHosts(const std::string& path);

}  // namespace tfdist::ssh
