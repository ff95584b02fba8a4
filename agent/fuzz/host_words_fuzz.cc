// What programs of a host print, and what lies in its files: nvidia-smi, loginctl, getent, /proc/self/cgroup, hosts(5), passwd(5); and
// slot.json, the cgroups of a limit.
//
// Input: which function (first byte), then the text.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/check/programs.h"
#include "agent/control/host_names.h"
#include "agent/slot/slot_folder.h"
#include "agent/tasks/gpu_share.h"
#include "agent/tasks/gpu_use.h"
#include "base/error.h"
#include "base/file.h"
#include "base/getent.h"
#include "base/hosts_file.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

void TryGpus(std::string_view text) {
  const auto lines = std::ranges::count(text, '\n') + 1;
  assert(GpusInListing(text).gpus.size() <= static_cast<size_t>(lines));
  assert(GpusInRocmListing(text).gpus.size() <= static_cast<size_t>(lines));
}

void TryGpuUses(std::string_view text) {
  const size_t half = text.size() / 2;
  const GpuUses uses = ReadGpuUses(text.substr(0, half), text.substr(half));
  for (const auto& gpu : UsedBy({1, 2, 3}, uses)) assert(gpu.index >= 0);
}

void TryLogin(std::string_view text) {
  (void)EndsProcesses(text, "trainer");
  (void)SessionOf(text);
  (void)EndsLoginsShortOfMemory(text, text);
}

void TryNames(std::string_view text) {
  for (const std::string& address : AddressesInHosts(text, "gpu7")) assert(!address.empty());
  for (const std::string& address : AddressesInAnswer(text)) assert(IsNumericAddress(address));
  (void)HomeInPasswd(text, 1000);
}

void TrySlotInfo(std::string_view text) {
  static const TemporaryFolder base;
  const SlotFolder folder(base.path() / "jobs/digits-20260801T120000Z-a1b2c3/h0");
  MakePrivateFolder(folder.path());
  ReplaceFile(folder.info(), text, 0600);
  try {
    (void)ReadSlotInfo(folder);
  } catch (const Error&) {
  }
}

void Run(int function, std::string_view text) {
  constexpr int kFunctions = 5;
  switch (function % kFunctions) {
    case 0:
      return TryGpus(text);
    case 1:
      return TryGpuUses(text);
    case 2:
      return TryLogin(text);
    case 3:
      return TryNames(text);
    default:
      return TrySlotInfo(text);
  }
}

}  // namespace
}  // namespace tfdist::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  tfdist::agent::Run(data[0], {reinterpret_cast<const char*>(data + 1), size - 1});
  return 0;
}
