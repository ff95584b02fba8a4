#include "base/failpoint.h"

namespace tfdist {
namespace {

FailPointHandler g_fail_point_handler = nullptr;

}  // namespace

void SetFailPointHandler(FailPointHandler handler) { g_fail_point_handler = handler; }

void FailPoint(std::string_view name) {
  if (g_fail_point_handler != nullptr) g_fail_point_handler(name);
}

}  // namespace tfdist
