// Limits how many operations run at once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/thread_annotations.h"

namespace tfdist::ssh {

// Places of which each name has a number. For any thread.
class Places {
 public:
  // A place, for as long as this lives.
  class Place {
   public:
    Place(Places& places, std::string name) : places_(places), name_(std::move(name)) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { places_.Leave(name_); }

   private:
    Places& places_;
    std::string name_;
  };

  // Waits until fewer than `limit` places of that name are taken. The wait has no deadline: the
  // holder of a place works against its own. The caller's deadline is moved by the time waited.
  [[nodiscard]] Place Take(const std::string& name, size_t limit, TimePoint& deadline);

 private:
  void Leave(const std::string& name);

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, size_t> taken_ GUARDED_BY(mutex_);
};

}  // namespace tfdist::ssh
