// What tfdist's folder on a host is called inside: the one list of names, for the agent and for the
// scripts that the command runs on a host before an agent does.
//
//   <base>/.id                     which folder of all at that path this one is: random
//   <base>/bin/<sha256>            agents, by their content
//   <base>/files/<sha256>          files that were sent
//   <base>/names/<name>.lock       held by the job that runs under that name
//   <base>/keep/<name>/            {keep}: what jobs of that name keep from one to the next
//   <base>/keep/.<name>            who has started the jobs that have used that
//   <base>/setup/<key>/            what set-up commands have made (agent/setup/set_up_folder.h)
//   <base>/data/<sha256>/          data that was sent, unpacked, by its content
//   <base>/jobs/<job>/h<slot>/     what one slot of one job has; agent and slot.json are in it, and
//                                  more, see agent/slot/slot_folder.h
//   <base>/jobs/<job>/run/         where tasks of one of its slots start: its first one on each machine,
//                                  so that programs find one path on all hosts (slot_folder.h)
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tfdist::layout {

// In `<base>`.
inline constexpr std::string_view kAgents = "bin";
inline constexpr std::string_view kFiles = "files";
inline constexpr std::string_view kNames = "names";
inline constexpr std::string_view kKeep = "keep";
inline constexpr std::string_view kSetUps = "setup";
inline constexpr std::string_view kData = "data";
inline constexpr std::string_view kJobs = "jobs";
inline constexpr std::string_view kBaseId = ".id";
// Before the nonce, in a folder of another place: what stands for `<base>` where an agent is brought for one request, as no folder
// of tfdist's has room for it or runs programs.
inline constexpr std::string_view kAside = "tfdist-";
// In a job's folder, before the slot's number.
inline constexpr std::string_view kSlotPrefix = "h";
// In a slot's folder. One of them makes it a slot's.
inline constexpr std::string_view kAgent = "agent";
inline constexpr std::string_view kSlotInfo = "slot.json";
// In a job's folder.
inline constexpr std::string_view kLevel = "run";
// In it: which slot has it.
inline constexpr std::string_view kLevelMark = ".slot";
// In a slot's folder, and in `run`.
inline constexpr std::string_view kWork = "work";

inline std::string SlotName(int slot) { return std::string(kSlotPrefix) + std::to_string(slot); }

// "<job>/h<slot>": its folder, below `<base>/jobs`. All its processes have it in their environment.
inline std::string SlotPath(std::string_view job, int slot) {
  return std::string(job) + "/" + SlotName(slot);
}

// Ids and names become file names: `[A-Za-z0-9._-]+`, no leading dot, at most `max_size` bytes.
bool IsPlainName(std::string_view name, size_t max_size);
inline constexpr size_t kMostJobBytes = 100;

struct SlotOfJob {
  std::string job;
  int slot = 0;
};
// What SlotPath has made; nullopt for any other text, above all for a path that leads elsewhere.
std::optional<SlotOfJob> ParseSlotPath(std::string_view path);
// The slot's number in "h12".
std::optional<int> ParseSlotName(std::string_view name);

// Whether `id` is one of a job called `name`, exactly: "NAME-20260801T120000Z-a1b2c3", a plain name.
bool IsJobIdOf(std::string_view id, std::string_view name);

// The job's own agent, which knows its tasks.
inline std::string AgentPath(std::string_view base, std::string_view job, int slot) {
  return std::string(base) + "/" + std::string(kJobs) + "/" + SlotPath(job, slot) + "/" +
         std::string(kAgent);
}

}  // namespace tfdist::layout
