#include "agent/deploy/own_slot.h"

#include <utility>

#include "agent/control/tcp_address.h"
#include "agent/files/file_store.h"
#include "base/error.h"
#include "base/log.h"

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

void AddDamage(std::string& damage, const std::string& more) {
  if (!damage.empty() && !more.empty()) damage += "; ";
  damage += more;
}

// Without its keys this slot is set aside: its coordinator does not let it in, or, on slot 0, nobody
// finds the coordinator. The command still reaches this agent, and ends what runs here.
CurveKeys ReadKeys(const SlotFolder& folder, std::string& damage) {
  try {
    return ReadCurveKeys(folder.key());
  } catch (const Error& e) {
    Log("{}; going on without the coordinator", e.cause());
    AddDamage(damage, e.cause());
    return MakeCurveKeys();
  }
}

}  // namespace

OwnSlot ReadOwnSlot(const KeeperLink& keeper) {
  const SlotFolder folder(keeper.handover().slot_folder);
  SlotInfo info = ReadInfo(keeper, folder);
  CurveKeys keys = ReadKeys(folder, info.damage);
  OwnSlot slot{folder, std::move(info), std::move(keys), ReadTold(folder)};
  AddDamage(slot.info.damage, slot.told.damage);
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
  hello.machine = MachineOfPorts();
  if (!slot.info.damage.empty()) hello.damage = slot.info.damage;
  return hello;
}

}  // namespace tfdist::agent
