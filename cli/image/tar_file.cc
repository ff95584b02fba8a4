#include "cli/image/tar_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>

#include "base/failures.h"
#include "base/file.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTarBlockBytes = 512;
constexpr uint64_t kMostDocumentBytes = 8 << 20;
constexpr uint64_t kMostDocuments = 64 << 20;  // bytes of all together
constexpr uint64_t kMostNameBytes = 1 << 20;
constexpr int kMostLinks = 8;  // one after the other

// The places of a header: POSIX.1-2017, pax, "ustar Interchange Format".
struct TarField {
  size_t begin;
  size_t size;
};
constexpr TarField kNameField{0, 100};
constexpr TarField kSizeField{124, 12};
constexpr TarField kChecksumField{148, 8};
constexpr size_t kTypePlace = 156;
constexpr TarField kLinkField{157, 100};
constexpr TarField kMagicField{257, 5};
constexpr TarField kPrefixField{345, 155};

// What zlib reads as it is where it is not compressed.
class GzipReader {
 public:
  GzipReader(int fd, std::string name) : name_(std::move(name)) {
    UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy.valid() || lseek(copy.get(), 0, SEEK_SET) != 0) {
      throw UsageError(Phase::kConfig, WithErrno("cannot read " + name_, errno));
    }
    file_ = gzdopen(copy.get(), "rb");
    if (file_ == nullptr) throw Error(Phase::kInternal, "zlib: gzdopen failed");
    (void)copy.Release();
  }
  ~GzipReader() { gzclose_r(file_); }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  // Fewer bytes at the end of the file only.
  std::string Read(size_t count) {
    std::string bytes(count, '\0');
    const int got = gzread(file_, bytes.data(), static_cast<unsigned>(count));
    int code = Z_OK;
    const char* words = gzerror(file_, &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      throw UsageError(Phase::kConfig, fmt::format("cannot read {}: {}", name_,
                                                   code == Z_BUF_ERROR ? "it is cut off" : words));
    }
    bytes.resize(static_cast<size_t>(got));
    return bytes;
  }
  void Skip(uint64_t count) {
    if (gzseek(file_, static_cast<z_off_t>(count), SEEK_CUR) >= 0) return;
    throw UsageError(Phase::kConfig, fmt::format("cannot read {}: it is cut off", name_));
  }
  [[nodiscard]] uint64_t offset() const { return static_cast<uint64_t>(gztell(file_)); }
  [[nodiscard]] bool is_compressed() const { return gzdirect(file_) == 0; }

 private:
  const std::string name_;
  gzFile file_ = nullptr;
};

std::string_view TextIn(const std::string& header, TarField slice) {
  const std::string_view field = std::string_view(header).substr(slice.begin, slice.size);
  return field.substr(0, std::min(field.find('\0'), field.size()));
}

// Octal; what is too large for that has the first bit set, and is binary (GNU tar, Go).
std::optional<uint64_t> NumberIn(const std::string& header, TarField slice) {
  const std::string_view field = std::string_view(header).substr(slice.begin, slice.size);
  uint64_t number = 0;
  if ((static_cast<unsigned char>(field.front()) & 0x80) != 0) {
    for (const char c : field.substr(field.size() - sizeof number)) {
      number = number << 8 | static_cast<unsigned char>(c);
    }
    return number >> 62 == 0 ? std::optional(number) : std::nullopt;
  }
  for (const char c : field) {
    if (c == ' ' || c == '\0') continue;
    if (c < '0' || c > '7') return std::nullopt;
    number = number * 8 + static_cast<uint64_t>(c - '0');
  }
  return number;
}

bool IsHeader(const std::string& header) {
  std::string summed = header;
  summed.replace(kChecksumField.begin, kChecksumField.size, kChecksumField.size, ' ');
  const auto sum = std::accumulate(summed.begin(), summed.end(), uint64_t{0},
                                   [](uint64_t all, unsigned char c) { return all + c; });
  return NumberIn(header, kChecksumField) == sum;
}

// "./a/../b/" -> "b"
std::string PlainPath(const fs::path& path) {
  std::string plain = path.lexically_normal().relative_path().string();
  if (plain.ends_with('/')) plain.pop_back();
  return plain;
}

// What a pax header says of the next member: "27 path=...\n" records.
struct SaidOfNext {
  std::optional<std::string> name;
  std::optional<std::string> link;
  std::optional<uint64_t> size_bytes;
};

void TakePax(std::string_view text, SaidOfNext& said) {
  while (!text.empty()) {
    std::string_view record = text;
    const std::string digits(TakeUpTo(' ', record));
    const size_t length = std::strtoul(digits.c_str(), nullptr, 10);
    if (length <= digits.size() + 1 || length > text.size()) return;
    record = text.substr(digits.size() + 1, length - digits.size() - 2);
    text.remove_prefix(length);
    const std::string_view key = TakeUpTo('=', record);
    if (key == "path") said.name = record;
    if (key == "linkpath") said.link = record;
    if (key == "size") said.size_bytes = std::strtoull(std::string(record).c_str(), nullptr, 10);
  }
}

std::string NameIn(const std::string& header) {
  const std::string_view prefix =
      TextIn(header, kMagicField) == "ustar" ? TextIn(header, kPrefixField) : std::string_view();
  return fmt::format("{}{}{}", prefix, prefix.empty() ? "" : "/", TextIn(header, kNameField));
}

// A soft link counts from its own folder, a hard one from the archive's root.
std::string TargetOf(const std::string& name, const std::string& link, bool soft) {
  return PlainPath(soft ? fs::path(name).parent_path() / link : fs::path(link));
}

class TarReader {
 public:
  TarReader(int fd, const std::string& name) : name_(name), file_(fd, name) {}

  std::map<std::string, TarMember> ReadAll() {
    while (true) {
      const std::string header = file_.Read(kTarBlockBytes);
      if (header == std::string(kTarBlockBytes, '\0')) return std::move(members_);
      if (header.size() < kTarBlockBytes && !members_.empty()) Fail("it is cut off");
      const auto size =
          header.size() == kTarBlockBytes ? NumberIn(header, kSizeField) : std::nullopt;
      if (!size || !IsHeader(header)) Fail("it is no tar file, or a damaged one");
      TakeMember(header, *size);
    }
  }
  [[nodiscard]] bool is_compressed() const { return file_.is_compressed(); }

 private:
  [[noreturn]] void Fail(const std::string& why) const {
    throw UsageError(Phase::kConfig, fmt::format("cannot read {}: {}", name_, why));
  }

  void TakeMember(const std::string& header, uint64_t size_bytes) {
    const char type = header[kTypePlace];
    if (type == 'x' || type == 'L' || type == 'K') {
      const std::string text = ReadContent(size_bytes, kMostNameBytes);
      if (type == 'x') TakePax(text, said_);
      if (type == 'L') said_.name = text.c_str();  // ends at a NUL
      if (type == 'K') said_.link = text.c_str();
      return;
    }
    const SaidOfNext said = std::exchange(said_, {});
    TarMember member;
    const std::string name = PlainPath(said.name.value_or(NameIn(header)));
    const bool is_link = type == '1' || type == '2';
    const bool is_file = type == '0' || type == '\0' || type == '7';
    if (is_link) {
      member.leads_to =
          TargetOf(name, said.link.value_or(std::string(TextIn(header, kLinkField))), type == '2');
    }
    const bool has_no_content = type >= '1' && type <= '6';
    member.size_bytes = has_no_content ? 0 : said.size_bytes.value_or(size_bytes);
    member.offset = file_.offset();
    TakeContent(member, is_file);
    if (is_link || is_file) members_[name] = std::move(member);
  }

  void TakeContent(TarMember& member, bool is_file) {
    if (!is_file || member.size_bytes == 0 || member.size_bytes > kMostDocumentBytes) {
      return Skip(member.size_bytes);
    }
    const std::string first = file_.Read(1);
    if (first != "{" && first != "[") return Skip(member.size_bytes, first.size());
    documents_ += member.size_bytes;
    if (documents_ > kMostDocuments) Fail("it has more than 64 MiB of descriptions");
    member.document = first + ReadContent(member.size_bytes, kMostDocumentBytes, 1);
  }

  // With what fills its last block; `read` bytes of it have been read.
  void Skip(uint64_t size_bytes, uint64_t read = 0) {
    file_.Skip((size_bytes + kTarBlockBytes - 1) / kTarBlockBytes * kTarBlockBytes - read);
  }

  std::string ReadContent(uint64_t size_bytes, uint64_t most, uint64_t read = 0) {
    if (size_bytes > most) Fail("a header of it is damaged");
    std::string content = file_.Read(size_bytes - read);
    if (content.size() < size_bytes - read) Fail("it is cut off");
    Skip(size_bytes, size_bytes);
    return content;
  }

  const std::string& name_;
  GzipReader file_;
  SaidOfNext said_;
  uint64_t documents_ = 0;
  std::map<std::string, TarMember> members_;
};

}  // namespace

TarFile::TarFile(int fd, const std::string& name) {
  TarReader reader(fd, name);
  members_ = reader.ReadAll();
  is_compressed_ = reader.is_compressed();
}

const TarMember* TarFile::Find(const std::string& path) const {
  std::string at = PlainPath(path);
  for (int links = 0; links <= kMostLinks; ++links) {
    const auto found = members_.find(at);
    if (found == members_.end()) return nullptr;
    if (found->second.leads_to.empty()) return &found->second;
    at = found->second.leads_to;
  }
  return nullptr;
}

void Uncompress(int from, const std::string& name,
                const std::function<void(std::string_view piece)>& write) {
  constexpr size_t kPieceBytes = 256 << 10;
  GzipReader reader(from, name);
  while (true) {
    const std::string piece = reader.Read(kPieceBytes);
    if (piece.empty()) return;
    write(piece);
  }
}

}  // namespace tfdist::cli
