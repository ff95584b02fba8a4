// Says what a command waits for, when it waits for more than a second.
#pragma once

#include <functional>
#include <future>
#include <string>
#include <thread>

namespace tfdist::cli {

class SlowNotice {
 public:
  // A thread of its own says "tfdist: `text`" on stderr after 1 s, unless this is gone by then.
  explicit SlowNotice(std::string text);
  // The same of what `text` returns then, on that thread. Empty: nothing.
  explicit SlowNotice(std::function<std::string()> text);
  SlowNotice(const SlowNotice&) = delete;
  SlowNotice& operator=(const SlowNotice&) = delete;
  ~SlowNotice();

 private:
  std::promise<void> done_;
  std::thread thread_;
};

}  // namespace tfdist::cli
