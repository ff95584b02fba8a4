#include "wire/house.h"

#include "base/json_fields.h"

namespace tfdist::protocol {

TFDIST_JSON_FIELDS(ListSlots, bases, closely, kept_of, tasks_of)
TFDIST_JSON_FIELDS(SlotTask, task, argv)
TFDIST_JSON_FIELDS(ListedSlot, base, job, slot, running, leased, size_kib, has_task_files,
                   out_of_time, started_by, tasks, common)
TFDIST_JSON_FIELDS(KeptOfName, base, name, files)
TFDIST_JSON_FIELDS(SlotList, slots, caches_kib, task_file_in_caches, kept, kept_names)
TFDIST_JSON_FIELDS(RemoveSlots, bases, jobs, slot, caches_stay, kept, kept_names)
TFDIST_JSON_FIELDS(KeptPath, why, remedy, runs)
TFDIST_JSON_FIELDS(Removal, removed, kept, in_use)

}  // namespace tfdist::protocol
