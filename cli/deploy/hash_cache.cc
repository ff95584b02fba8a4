#include "cli/deploy/hash_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <optional>

#include "base/text.h"

namespace tfdist::cli {
namespace {

bool IsHash(std::string_view text) {
  constexpr size_t kDigits = 64;
  return text.size() == kDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// "SIZE MTIME CTIME INODE SHA256"
std::optional<KnownHash> HashIn(std::string_view text) {
  KnownHash known;
  for (int64_t& number : known.stamp) {
    const std::string_view word = TakeUpTo(' ', text);
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  }
  known.sha256 = text;
  return IsHash(text) ? std::optional(std::move(known)) : std::nullopt;
}

}  // namespace

std::string EncodeHashCache(const HashCache& cache) {
  std::string content;
  for (const auto& [path, known] : cache) {
    content += path + '\0' + fmt::format("{} {}", fmt::join(known.stamp, " "), known.sha256) + '\0';
  }
  return content;
}

HashCache DecodeHashCache(std::string_view content) {
  HashCache cache;
  while (!content.empty()) {
    std::string path(TakeUpTo('\0', content));
    if (auto known = HashIn(TakeUpTo('\0', content))) {
      cache.insert_or_assign(std::move(path), *std::move(known));
    }
  }
  return cache;
}

}  // namespace tfdist::cli
