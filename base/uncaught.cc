#include "base/uncaught.h"

#include <new>
#include <string>
#include <system_error>

#include "base/process_limits.h"

namespace tfdist {
namespace {
constexpr const char* kBug = "this is a bug of tfdist: please report it";
}  // namespace

Error CurrentError() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(Phase::kInternal, WithProcessLimits("out of memory"),
                 std::string(kMemoryLimitRemedy));
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {  // of a thread: std::thread
      return Error(Phase::kInternal, WithProcessLimits("cannot start a thread"),
                   std::string(kProcessLimitRemedy));
    }
    return Error(Phase::kInternal, error.what());
  } catch (const std::exception& error) {
    return Error(Phase::kInternal, error.what(), kBug);
  } catch (...) {
    return Error(Phase::kInternal, "an exception of an unknown type", kBug);
  }
}

}  // namespace tfdist
