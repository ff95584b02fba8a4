#include "cli/deploy/packed_once.h"

#include <chrono>
#include <utility>

namespace tfdist::cli {

PackedOnce::PackedOnce() : spool_(std::make_shared<UniqueFd>(TemporaryFile())) {}

const PackedFile* PackedOnce::Get(const std::string& sha256, const Pack& pack,
                                  const std::function<void()>& meanwhile) {
  if (const PackedFile* known = Begin(sha256, meanwhile)) return known;
  try {
    return End(sha256, pack(spool_));
  } catch (...) {
    End(sha256, nullptr);
    throw;
  }
}

const PackedFile* PackedOnce::Begin(const std::string& sha256,
                                    const std::function<void()>& meanwhile) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (packing_) changed_.wait_for(mutex_, std::chrono::seconds(1));
      const auto known = packed_.find(sha256);
      if (known != packed_.end()) return known->second.get();
      if (!std::exchange(packing_, true)) return nullptr;
    }
    meanwhile();
  }
}

const PackedFile* PackedOnce::End(const std::string& sha256, std::unique_ptr<PackedFile> made) {
  const MutexLock lock(mutex_);
  packing_ = false;
  changed_.notify_all();
  if (made == nullptr) return nullptr;
  return (packed_[sha256] = std::move(made)).get();
}

}  // namespace tfdist::cli
