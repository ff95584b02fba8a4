// `ulimit -f` of the test's own process, for as long as the object lives. A program that is started meanwhile inherits it.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace tfdist {

class FileSizeLimitForTest {
 public:
  explicit FileSizeLimitForTest(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit low{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &low);
  }
  ~FileSizeLimitForTest() {
    setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimitForTest(const FileSizeLimitForTest&) = delete;
  FileSizeLimitForTest& operator=(const FileSizeLimitForTest&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

}  // namespace tfdist
