#include "base/uncaught.h"

#include <new>
#include <system_error>

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
    return Error(Phase::kInternal, "out of memory");
  } catch (const std::system_error& error) {
    return Error(Phase::kInternal, error.what());
  } catch (const std::exception& error) {
    return Error(Phase::kInternal, error.what(), kBug);
  } catch (...) {
    return Error(Phase::kInternal, "an exception of an unknown type", kBug);
  }
}

}  // namespace tfdist
