#include "cli/deploy/sent_parts.h"

#include <chrono>

namespace tfdist::cli {

const protocol::DataOffer& OfferOnce::Get(const std::function<protocol::DataOffer()>& make,
                                          const std::function<void()>& meanwhile) {
  std::shared_future<protocol::DataOffer> made;
  {
    const MutexLock lock(mutex_);
    if (!made_.valid()) made_ = std::async(std::launch::async, make).share();
    made = made_;
  }
  while (made.wait_for(std::chrono::seconds(1)) != std::future_status::ready) meanwhile();
  return made.get();  // what the future that stays here refers to, too
}

}  // namespace tfdist::cli
