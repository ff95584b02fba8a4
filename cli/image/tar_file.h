// A tar file of this machine, plain or compressed by gzip: what is in it, and where.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tfdist::cli {

struct TarMember {
  uint64_t offset = 0;  // of its content, in the file as it is without gzip
  uint64_t size_bytes = 0;
  std::string leads_to;  // of a link: another member; empty: it is none
  std::string document;  // its content, where that looks like JSON
};

class TarFile {
 public:
  // Reads all headers, and all of a compressed file. `fd` is borrowed; `name` is for errors. Throws UsageError for what is no
  // tar file, what is damaged or cut off, and what holds more documents than an image has.
  TarFile(int fd, const std::string& name);

  // By its path from the archive's root; links are followed. nullptr: there is none.
  [[nodiscard]] const TarMember* Find(const std::string& path) const;
  [[nodiscard]] bool is_compressed() const { return is_compressed_; }

 private:
  std::map<std::string, TarMember> members_;
  bool is_compressed_ = false;
};

// Gives `write` the content of the compressed file `from`, which is borrowed, piece by piece; `name` is for errors. Throws UsageError.
void Uncompress(int from, const std::string& name,
                const std::function<void(std::string_view piece)>& write);

}  // namespace tfdist::cli
