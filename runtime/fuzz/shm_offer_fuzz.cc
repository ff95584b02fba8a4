// Offers of shared memory: with no time left, whatever a server offers is declined or an Error.
#include <cassert>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"
#include "runtime/shm/host_id.h"
#include "runtime/shm/offer.h"

using namespace tfdist::runtime::shm;

namespace {

// Version, then the length of the boot id.
constexpr size_t kBootIdAt = 4;

void Take(std::string_view offer) {
  try {
    assert(!AcceptOffer(offer, tfdist::TimePoint::min()).connection);
  } catch (const tfdist::Error&) {
  }
}

// The offer as of this host, which no file can know: others are declined at once.
std::string OfThisHost(std::string offer) {
  static const HostId host = ThisHost().value_or(HostId());
  if (offer.size() < kBootIdAt + host.boot_id.size() + sizeof host.network_namespace) return offer;
  offer.replace(kBootIdAt, host.boot_id.size(), host.boot_id);
  std::memcpy(offer.data() + kBootIdAt + host.boot_id.size(), &host.network_namespace,
              sizeof host.network_namespace);
  return offer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string offer(reinterpret_cast<const char*>(data), size);
  Take(offer);
  Take(OfThisHost(offer));
  return 0;
}
