// What the command asks of tfdist's folders on a host: which jobs have something there, and to remove it. The role `house` answers one
// request, and ends. It reads nothing meanwhile, no ping either.
//
//   list_slots   ListSlots   -> SlotList
//   remove_slots RemoveSlots -> Removal
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "job/bytes.h"
#include "job/task.h"
#include "wire/kept_files.h"

namespace tfdist::protocol {

namespace type {
inline constexpr std::string_view kListSlots = "list_slots";
inline constexpr std::string_view kRemoveSlots = "remove_slots";
}  // namespace type

// `bases`: tfdist's folders, which nobody else can replace, without symbolic links.
struct ListSlots {
  std::vector<Bytes> bases;
  bool closely = false;       // with sizes, and what tasks have written
  std::string kept_of;        // a job's name: with what lies in its {keep}; empty: without
  std::string tasks_of = {};  // a job's id: with what its tasks run; empty: without
};

// A task that a slot runs, or may run in the place of another one.
struct SlotTask {
  std::string task;
  std::vector<Text> argv;
};

struct ListedSlot {
  size_t base = 0;  // its place in `bases`
  std::string job;
  int slot = 0;
  bool running = false;  // a keeper, agent or holder of it runs on this host
  bool leased = false;   // nothing of it runs here; another host that shares the folder may run it
  uint64_t size_kib = 0;
  bool has_task_files = true;        // a task has written something into it, or this is not known
  bool out_of_time = false;          // it is not known, as looking through it took too long
  std::string started_by = {};       // "alice@laptop", of a slot of `tasks_of`; empty: not known
  std::vector<SlotTask> tasks = {};  // the same
  CommonTexts common = {};           // that their texts name
};

// {keep} of the jobs of one name.
struct KeptOfName {
  size_t base = 0;  // as in ListedSlot
  std::string name;
  KeptFiles files;
};

struct SlotList {
  std::vector<ListedSlot> slots;
  uint64_t caches_kib = 0;  // agents, received files, set-ups, data
  Bytes
      task_file_in_caches;  // with `closely`: one that a task has written into a set-up; empty: none
  std::vector<KeptFiles> kept;         // of `kept_of`, in each of `bases`
  std::vector<KeptOfName> kept_names;  // with `closely`: of all names
};

struct RemoveSlots {
  std::vector<Bytes> bases;
  std::vector<std::string> jobs;  // ids
  int slot =
      -1;  // only that one of each job, however little of it is there; -1: all, and the caches
  bool caches_stay = false;  // for jobs that stay
  bool kept = false;  // with `slot`: {keep} of the job's name too, where no other job of it is left
  // Without `slot`: {keep} of these names, where no job of theirs is left.
  std::vector<std::string> kept_names = {};
};

// A folder or file that was to go.
struct KeptPath {
  std::string why;  // "PATH: why"
  std::string remedy;
  bool runs = false;  // something of the job does, or may: it can have ended a moment later
};

struct Removal {
  std::vector<std::string> removed;  // absolute paths
  std::vector<KeptPath> kept;
  std::vector<std::string> in_use;  // "PATH: why", of what was not to go, as other jobs use it
};

#define TFDIST_BODY(T)                      \
  void to_json(Json& json, const T& value); \
  void from_json(const Json& json, T& value)
TFDIST_BODY(ListSlots);
TFDIST_BODY(SlotTask);
TFDIST_BODY(ListedSlot);
TFDIST_BODY(KeptOfName);
TFDIST_BODY(SlotList);
TFDIST_BODY(RemoveSlots);
TFDIST_BODY(KeptPath);
TFDIST_BODY(Removal);
#undef TFDIST_BODY

}  // namespace tfdist::protocol
