// What a mutex guards, written down and checked by clang's -Wthread-safety; other compilers pass
// over it. As in leveldb's port/thread_annotations.h; attributes: clang's ThreadSafetyAnalysis
// page.
#pragma once

#include <mutex>

#if defined(__clang__)
#define TFDIST_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define TFDIST_THREAD_ATTRIBUTE(x)
#endif

#define GUARDED_BY(x) TFDIST_THREAD_ATTRIBUTE(guarded_by(x))
#define REQUIRES(x) TFDIST_THREAD_ATTRIBUTE(requires_capability(x))

namespace tfdist {

// std::mutex carries no annotations in libstdc++.
class TFDIST_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() TFDIST_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() TFDIST_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class TFDIST_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TFDIST_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() TFDIST_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace tfdist
