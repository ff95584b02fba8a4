#include "runtime/ps/store/version.h"

#include <algorithm>
#include <new>
#include <utility>

namespace tfdist::runtime {
namespace {

constexpr std::align_val_t kCacheLine{64};

}  // namespace

Version::Version(size_t floats)
    : floats_(floats),
      values_(static_cast<float*>(::operator new[](floats * sizeof(float), kCacheLine))) {}

void Version::Free::operator()(float* values) const { ::operator delete[](values, kCacheLine); }

std::unique_ptr<Version> VersionPool::Take(size_t floats) {
  // The one that was used last is the likeliest to be in a cache.
  const auto found = std::find_if(retired_.rbegin(), retired_.rend(), [&](const auto& version) {
    return version->values().size() == floats && !version->held();
  });
  if (found == retired_.rend()) return std::make_unique<Version>(floats);
  std::unique_ptr<Version> version = std::move(*found);
  retired_.erase(std::next(found).base());
  return version;
}

void VersionPool::Retire(std::unique_ptr<Version> version) {
  retired_.push_back(std::move(version));
}

}  // namespace tfdist::runtime
