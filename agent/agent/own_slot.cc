#include "agent/agent/own_slot.h"

#include "agent/control/tcp_address.h"
#include "agent/files/file_store.h"

namespace tfdist::agent {
namespace {

// The socket that the coordinator listens on knows its port, where slot.json does not say it.
SlotInfo ReadInfo(const KeeperLink& keeper, const SlotFolder& folder) {
  SlotInfo info = ReadOrInferSlotInfo(folder);
  if (info.damage.empty() || info.slot != 0) return info;
  info.address = "::";
  info.port = LocalPort(keeper.listener_fd());
  return info;
}

}  // namespace

OwnSlot ReadOwnSlot(const KeeperLink& keeper) {
  const SlotFolder folder(keeper.handover().slot_folder);
  OwnSlot slot{folder, ReadInfo(keeper, folder), ReadCurveKeys(folder.key()), ReadTold(folder)};
  std::string& damage = slot.info.damage;
  if (!damage.empty() && !slot.told.damage.empty()) damage += "; ";
  damage += slot.told.damage;
  return slot;
}

protocol::Hello MakeHello(const OwnSlot& slot) {
  protocol::Hello hello;
  hello.serving = protocol::Serving::kAgent;
  hello.agent_sha256 = slot.info.agent_sha256;
  hello.base = slot.info.base;
  hello.job = slot.info.job;
  hello.slot = slot.info.slot;
  hello.public_key = slot.keys.public_key;
  if (!slot.info.damage.empty()) hello.damage = slot.info.damage;
  return hello;
}

}  // namespace tfdist::agent
