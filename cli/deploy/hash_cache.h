// The file in which hashes of a work folder's files are kept from one `up` to the next.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tfdist::cli {

struct KnownHash {
  std::array<int64_t, 4> stamp{};  // size, mtime, ctime, inode
  std::string sha256;
  bool operator==(const KnownHash&) const = default;
};
// By path below the work folder, which holds any byte but NUL.
using HashCache = std::map<std::string, KnownHash>;

std::string EncodeHashCache(const HashCache& cache);
// What is damaged is passed over: that file is read again.
HashCache DecodeHashCache(std::string_view content);

}  // namespace tfdist::cli
