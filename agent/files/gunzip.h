// Unpacks a gzip stream piece by piece.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace tfdist::agent {

class Gunzip {
 public:
  Gunzip();
  ~Gunzip();

  // Hands what `bytes` unpack to, in parts of at most 64 KiB, to `take`. Throws Error(kFiles) when
  // they are not gzip.
  void Feed(std::string_view bytes, const std::function<void(std::string_view)>& take);
  // The end of the gzip stream has been seen; its checksum was right.
  [[nodiscard]] bool finished() const { return finished_; }

 private:
  struct State;  // keeps <zlib.h> out of every file that includes this one
  std::unique_ptr<State> state_;
  bool finished_ = false;
};

}  // namespace tfdist::agent
