#include "base/descriptor_limit.h"

#include <algorithm>

namespace tfdist {
namespace {

constexpr rlim_t kEnough = 65536;

rlimit Current() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

rlim_t inherited = 0;  // 0: not raised

}  // namespace

void RaiseDescriptorLimit() {
  rlimit limit = Current();
  inherited = limit.rlim_cur;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kEnough));
  setrlimit(RLIMIT_NOFILE, &limit);
}

rlim_t InheritedDescriptorLimit() { return inherited != 0 ? inherited : Current().rlim_cur; }

}  // namespace tfdist
