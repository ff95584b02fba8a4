// Files that are packed when the first host asks for them: one at a time, each once, into one temporary file.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/thread_annotations.h"
#include "cli/deploy/packed_file.h"

namespace tfdist::cli {

class PackedOnce {
 public:
  using Pack = std::function<std::unique_ptr<PackedFile>(const std::shared_ptr<UniqueFd>& spool)>;

  PackedOnce();

  // The file of this content, packed now if no other thread has asked for it before. `meanwhile` is called at least each second
  // while another thread packs. Any thread. Throws what `pack` and `meanwhile` throw.
  const PackedFile* Get(const std::string& sha256, const Pack& pack,
                        const std::function<void()>& meanwhile);

 private:
  // What is packed already; else nullptr, and it is this thread's turn until it calls End.
  const PackedFile* Begin(const std::string& sha256, const std::function<void()>& meanwhile);
  // `made`: nullptr after an error.
  const PackedFile* End(const std::string& sha256, std::unique_ptr<PackedFile> made);

  const std::shared_ptr<UniqueFd> spool_;  // written by the thread whose turn it is
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool packing_ GUARDED_BY(mutex_) = false;  // it is some thread's turn
  std::map<std::string, std::unique_ptr<PackedFile>> packed_ GUARDED_BY(mutex_);
};

}  // namespace tfdist::cli
