// What libssh2 does not manage.
#pragma once

#include <string>

#include "base/error.h"

namespace tfdist::ssh {

// The user's own ssh program may manage it, and gets its try: the cause is a note beside its success, and ssh's error is the one
// that the user sees. So nothing is tried twice here, and nothing has a remedy.
class LibraryFailure : public Error {
 public:
  LibraryFailure(Phase phase, std::string cause) : Error(phase, std::move(cause)) {}
};

}  // namespace tfdist::ssh
