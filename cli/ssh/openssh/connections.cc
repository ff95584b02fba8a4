#include "cli/ssh/openssh/connections.h"

#include <algorithm>
#include <utility>

namespace tfdist::ssh {

std::shared_ptr<MasterChannel> Connections::Join(const std::shared_ptr<const void>& count) {
  for (Connection& connection : all_) {
    if (Count(connection) >= most_) continue;
    auto channel = std::make_shared<MasterChannel>(connection.master, count);
    connection.channels.push_back(channel);
    return channel;
  }
  return nullptr;
}

std::shared_ptr<MasterChannel> Connections::Begin(std::shared_ptr<Master> master,
                                                  const std::shared_ptr<const void>& count) {
  auto channel = std::make_shared<MasterChannel>(std::move(master), count);
  all_.push_back({channel->master, {channel}});
  return channel;
}

long Connections::Refuse(MasterChannel& channel) {
  channel.refused = true;
  for (Connection& connection : all_) {
    if (connection.master != channel.master) continue;
    const long others = Count(connection);
    most_ = std::max(least_, std::min(most_, others));
    return others;
  }
  return 0;
}

void Connections::Leave(const Master& master) {
  std::erase_if(all_, [&](const Connection& one) { return one.master.get() == &master; });
}

long Connections::Count(Connection& connection) {
  std::erase_if(connection.channels, [](const std::weak_ptr<MasterChannel>& channel) {
    const auto locked = channel.lock();
    return locked == nullptr || locked->refused;
  });
  return static_cast<long>(connection.channels.size());
}

}  // namespace tfdist::ssh
