#include "base/strangers.h"

#include <algorithm>

namespace tfdist {

void Strangers::OnAccepted(int fd) {
  Forget(fd);  // the number of a closed one, whose end was not told yet
  const auto accepted = AcceptedConnection::At(fd);
  if (!accepted) return;  // closed again
  connections_.push_back(*accepted);
  if (connections_.size() <= limit_) return;
  const auto victim = OldestOfTheMost();
  victim->ShutDown();
  connections_.erase(victim);
}

void Strangers::Forget(int fd) {
  connections_.remove_if(
      [fd](const AcceptedConnection& connection) { return connection.fd() == fd; });
}

size_t Strangers::CountFrom(const AcceptedConnection& connection) const {
  return static_cast<size_t>(
      std::count_if(connections_.begin(), connections_.end(),
                    [&](const AcceptedConnection& other) { return other.SameHost(connection); }));
}

std::list<AcceptedConnection>::iterator Strangers::OldestOfTheMost() {
  return std::max_element(connections_.begin(), connections_.end(),
                          [this](const AcceptedConnection& a, const AcceptedConnection& b) {
                            return CountFrom(a) < CountFrom(b);
                          });
}

}  // namespace tfdist
