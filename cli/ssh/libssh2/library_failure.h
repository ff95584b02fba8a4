// What libssh2 does not manage.
#pragma once

#include "base/error.h"
#include "base/failures.h"

namespace tfdist::ssh {

// The user's own ssh program may manage it: the cause says what it was.
class LibraryFailure : public Error {
 public:
  using Error::Error;
};

// The host speaks SSH, and the login broke off or stood still: it may be busy, or the user's own ssh program may manage it.
class LibraryBreak : public Unreachable {
 public:
  using Unreachable::Unreachable;
};

}  // namespace tfdist::ssh
