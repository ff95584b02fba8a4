// What libssh2 does not manage.
#pragma once

#include "base/error.h"

namespace tfdist::ssh {

// The user's own ssh program may manage it: the cause says what it was.
class LibraryFailure : public Error {
 public:
  using Error::Error;
};

}  // namespace tfdist::ssh
