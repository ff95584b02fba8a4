// What becomes of an exception that reaches a program's `main`: a message and an exit code, never
// an abort.
#pragma once

#include "base/error.h"

namespace tfdist {

// The exit code of all our programs for an internal error: a bug of ours, or a machine without the
// memory, threads or descriptors that every process needs. Source: EX_SOFTWARE in sysexits.h.
inline constexpr int kExitInternal = 70;

// The exception at hand as an Error; for use in a `catch` block. An Error comes back as it is;
// every other exception is one of phase kInternal, with a remedy that calls it a bug unless the
// system itself refused something (std::system_error, std::bad_alloc).
Error CurrentError();

}  // namespace tfdist
