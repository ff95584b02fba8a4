// A file of TensorFlow events, as TensorBoard finds and reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/unique_fd.h"
#include "runtime/summary/event.h"

namespace tfdist::runtime {

class EventFile {
 public:
  // A new file "events.out.tfevents.TIME.HOST.PID" in `folder`, which is made if need be. Throws
  // Error(kFiles).
  explicit EventFile(const std::filesystem::path& folder);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // One event, written at once. Throws Error(kFiles).
  void Add(int64_t step, const std::vector<Scalar>& scalars);

 private:
  std::filesystem::path path_;
  UniqueFd file_;
};

}  // namespace tfdist::runtime
