#include "cli/ssh/keys/known_hosts_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "base/thread_annotations.h"
#include "base/unique_fd.h"
#include "cli/ssh/config/algorithms.h"
#include "cli/ssh/config/config_patterns.h"
#include "cli/ssh/keys/public_key.h"

namespace tfdist::ssh {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;
constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kHashMagic = "|1|";
constexpr size_t kSaltBytes = 20;
// match.c: a longer one matches nothing there, nor does what follows it.
constexpr size_t kMaxPatternBytes = 1022;

void SkipBlanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
}

// And the blanks behind it.
std::string_view TakeWord(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(word.size());
  SkipBlanks(text);
  return word;
}

// match.c match_pattern_list.
bool MatchesList(const std::string& name, std::string_view list) {
  bool matched = false;
  while (!list.empty()) {
    const bool negated = list.front() == '!';
    if (negated) list.remove_prefix(1);
    const std::string_view pattern = TakeUpTo(',', list);
    if (!MatchesPattern(name, LowerCase(pattern))) continue;
    if (negated) return false;
    matched = true;
  }
  return matched;
}

// hostfile.c host_hash: "|1|SALT|HMAC-SHA1 of the name with SALT as key", both in base64.
bool MatchesHash(const std::string& name, std::string_view hashed) {
  if (!hashed.starts_with(kHashMagic)) return false;
  std::string_view rest = hashed.substr(kHashMagic.size());
  const std::string_view salt_text = TakeUpTo('|', rest);
  const auto salt = FromBase64(salt_text);
  if (!salt || salt->size() != kSaltBytes || Base64(*salt) != salt_text) return false;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  HMAC(EVP_sha1(), salt->data(), static_cast<int>(salt->size()),
       reinterpret_cast<const unsigned char*>(name.data()), name.size(), digest.data(), &size);
  return rest == Base64({reinterpret_cast<const char*>(digest.data()), size});
}

bool MatchesNames(const std::string& name, const std::string& lower_name, std::string_view names) {
  return names.starts_with('|') ? MatchesHash(name, names) : MatchesList(lower_name, names);
}

// What tells one state of a file from the next.
struct FileState {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = -1;
  int64_t seconds = 0;
  int64_t nanoseconds = 0;
  friend bool operator==(const FileState&, const FileState&) = default;
};

FileState StateOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

std::string ReadAll(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return {};
  std::string text;
  std::array<char, 65536> buffer;
  while (true) {
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EISDIR) return {};  // as ssh
    if (got < 0) {                              // what it may have held is no reason to trust
      throw Error(Phase::kHostKey, WithErrno(fmt::format("cannot read {}", path), errno));
    }
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
    if (text.size() > kMaxFileBytes) {
      throw Error(Phase::kHostKey, fmt::format("{} is longer than 64 MiB", path));
    }
  }
}

// The files that were asked for, in this process.
class KnownHostsFiles {
 public:
  std::shared_ptr<const KnownHostsFile> Read(const std::string& path) {
    const FileState state = StateOf(path);
    const MutexLock lock(mutex_);
    Entry& entry = entries_[path];
    if (entry.file == nullptr || entry.state != state) {
      entry.file = std::make_shared<KnownHostsFile>(path, ReadAll(path));
      entry.state = state;  // from before it was read: what came since is seen the next time
    }
    return entry.file;
  }

 private:
  struct Entry {
    FileState state;
    std::shared_ptr<const KnownHostsFile> file;
  };
  Mutex mutex_;
  std::map<std::string, Entry> entries_ GUARDED_BY(mutex_);
};

}  // namespace

KnownHostsFile::KnownHostsFile(std::string path, std::string text)
    : path_(std::move(path)), text_(std::move(text)) {
  std::string_view rest = text_;
  for (int number = 1; !rest.empty(); ++number) {
    std::string_view text_line = TakeUpTo('\n', rest);
    text_line = text_line.substr(0, text_line.find('\0'));
    SkipBlanks(text_line);
    if (text_line.empty() || text_line.front() == '#') continue;
    Line line;
    line.number = number;
    // A second marker counts as a name, which it is not: ssh takes no such line.
    line.is_marked = text_line.front() == '@';
    if (line.is_marked) (void)TakeWord(text_line);
    line.names = TakeWord(text_line);
    line.type = TakeWord(text_line);
    line.key = text_line.substr(0, text_line.find_first_of(" \t\r"));
    lines_.push_back(line);
  }
}

bool KnownKeys::Have(std::string_view blob) const {
  return std::ranges::any_of(keys, [&](const KnownKey& key) { return key.blob == blob; });
}

void KnownKeys::Add(KnownKeys more) {
  std::ranges::move(more.keys, std::back_inserter(keys));
  if (odd.empty()) odd = std::move(more.odd);
}

KnownKeys KnownHostsFile::Find(const std::string& name) const {
  const std::string lower_name = LowerCase(name);
  KnownKeys found;
  for (const Line& line : lines_) {
    if (!MatchesNames(name, lower_name, line.names)) continue;
    auto blob = FromBase64(line.key);
    const bool is_plain = !line.is_marked && line.names.size() <= kMaxPatternBytes &&
                          IsKeyType(line.type) && blob && Base64(*blob) == line.key &&
                          KeyType(*blob) == line.type;
    if (is_plain) {
      found.keys.push_back({std::string(line.type), *std::move(blob)});
    } else if (found.odd.empty()) {
      found.odd = fmt::format("{} line {}", path_, line.number);
    }
  }
  return found;
}

std::shared_ptr<const KnownHostsFile> ReadKnownHosts(const std::string& path) {
  static KnownHostsFiles files;
  return files.Read(path);
}

}  // namespace tfdist::ssh
