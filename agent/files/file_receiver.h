// One file on its way in: unpacked, hashed, written aside, and named only when it is whole and
// right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "agent/files/gunzip.h"
#include "base/hash.h"
#include "base/unique_fd.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class FileReceiver {
 public:
  // `path`: where the file goes. Throws Error(kFiles).
  FileReceiver(protocol::FileDescription file, std::filesystem::path path);
  // Removes what is not finished.
  ~FileReceiver();

  void Add(const protocol::FilePiece& piece);
  // The next bytes as they are, instead of pieces. True: that was all.
  bool AddContent(uint64_t offset, std::string_view content);
  // Checks and renames.
  void Finish();

  // Where it is written to until then, and how much of it is there.
  [[nodiscard]] const std::string& aside() const { return aside_; }
  [[nodiscard]] uint64_t written() const { return written_; }

 private:
  void Write(std::string_view content);

  protocol::FileDescription file_;
  std::filesystem::path path_;
  std::string aside_;
  UniqueFd fd_;
  Gunzip gunzip_;
  Sha256 hash_;
  uint64_t received_ = 0;  // compressed
  uint64_t written_ = 0;   // unpacked
  bool plain_ = false;     // it comes by AddContent
};

}  // namespace tfdist::agent
