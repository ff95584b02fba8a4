// The values of a block at one time. Answers on their way refer to them without a copy; while one
// does, the values stay as they are and an update goes to another buffer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tfdist::runtime {

// The store's thread writes and holds; any thread lets go.
class Version {
 public:
  explicit Version(size_t floats);

  [[nodiscard]] std::span<float> values() { return {values_.get(), floats_}; }
  [[nodiscard]] std::span<const float> values() const { return {values_.get(), floats_}; }

  void Hold() { holders_.fetch_add(1, std::memory_order_relaxed); }
  // The holder has read for the last time.
  void LetGo() { holders_.fetch_sub(1, std::memory_order_release); }
  // Once false it stays so until the store's thread calls Hold.
  [[nodiscard]] bool held() const { return holders_.load(std::memory_order_acquire) != 0; }

 private:
  struct Free {
    void operator()(float* values) const;
  };
  size_t floats_;
  std::unique_ptr<float[], Free> values_;
  std::atomic<uint32_t> holders_{0};
};

// Buffers for new versions, used again and again: in a steady state nothing is allocated. One
// thread.
class VersionPool {
 public:
  // One that nobody holds; its values are anything.
  std::unique_ptr<Version> Take(size_t floats);
  // A version that is not the newest any more. May still be held.
  void Retire(std::unique_ptr<Version> version);

  // How many there are besides the newest ones.
  [[nodiscard]] size_t size() const { return retired_.size(); }

 private:
  std::vector<std::unique_ptr<Version>> retired_;
};

}  // namespace tfdist::runtime
