// What every reader of logs throws when the disk fails.
#pragma once

#include "base/error.h"

namespace tfdist::agent {

// A log's files cannot be read. Other logs may well be.
class LogUnreadable : public Error {
 public:
  using Error::Error;
};

}  // namespace tfdist::agent
