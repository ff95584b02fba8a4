#include "base/strangers.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tfdist {

void Strangers::OnAccepted(int fd) {
  Forget(fd);  // the number of a closed one, whose end was not told yet
  const auto accepted = AcceptedConnection::At(fd);
  if (!accepted) return;  // closed again
  std::string host = accepted->Host();
  FromOneHost& from_host = hosts_[host];
  from_host.push_back({*accepted, ++accepted_});
  places_[fd] = {std::move(host), std::prev(from_host.end())};
  if (size() <= limit_) return;
  const AcceptedConnection victim = OldestOfTheMost().connection;
  victim.ShutDown();
  Forget(victim.fd());
}

void Strangers::Forget(int fd) {
  const auto place = places_.find(fd);
  if (place == places_.end()) return;
  const auto host = hosts_.find(place->second.host);
  host->second.erase(place->second.at);
  if (host->second.empty()) hosts_.erase(host);
  places_.erase(place);
}

const Strangers::Stranger& Strangers::OldestOfTheMost() const {
  const auto less = [](const auto& a, const auto& b) {
    if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
    return a.second.front().number > b.second.front().number;
  };
  return std::max_element(hosts_.begin(), hosts_.end(), less)->second.front();
}

}  // namespace tfdist
