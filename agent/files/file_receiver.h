// One file on its way in: unpacked, hashed, written aside, and named only when it is whole and
// right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "agent/files/gunzip.h"
#include "agent/protocol.h"
#include "base/hash.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

class FileReceiver {
 public:
  // `path`: where the file goes. Throws Error(kFiles).
  FileReceiver(protocol::FileDescription file, std::filesystem::path path);
  // Removes what is not finished.
  ~FileReceiver();

  void Add(const protocol::FilePiece& piece);
  // Checks and renames.
  void Finish();

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
};

}  // namespace tfdist::agent
